/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_softmax.h"

#include "mct_softmax_row.h"

void mct_softmax_s8(const mct_softmax_s8_params *p, const int8_t *x, const mct_exponent *x_exponent,
                    int8_t *y) {
    const int32_t exponent =
        x_exponent != NULL ? mct_clamp(x_exponent->now, 0, p->exponent_limit) : 0;
    const int32_t diff_min = -(-p->diff_min >> exponent);
    for (int32_t row = 0; row < p->rows; row++, x += p->classes, y += p->classes) {
        const mct_softmax_row of =
            mct_softmax_begin(x, p->classes, p->mult_q31, p->left_shift + exponent, diff_min);
        for (int32_t c = 0; c < p->classes; c++) {
            y[c] = (int8_t)mct_clamp(mct_softmax_probability(&of, x[c], 8) - 128, -128, 127);
        }
    }
}
