/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_softmax_grad_input_<type>. */

#include "mct_softmax_row.h"

void MCT_NAME(mct_softmax_grad_input)(const MCT_PARAMS(mct_softmax_grad_input) *p,
                                      const mct_step *step, const MCT_GRAD *dy,
                                      const mct_exponent *dy_exponent, const int8_t *x,
                                      const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                      MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t row = 0; row < p->rows; row++) {
        const int32_t first = row * p->classes;
        const mct_softmax_row of =
            mct_softmax_begin(x + first, p->classes, p->mult_q31, p->left_shift, p->diff_min);
        MCT_ACC total = 0, weighted = 0;
        for (int32_t c = 0; c < p->classes; c++) {
            const int32_t q = mct_softmax_probability(&of, x[first + c], MCT_PROBABILITY_BITS);
            scratch[c] = q;
            total += q;
            weighted += (MCT_ACC)dy[first + c] * q;
        }
        for (int32_t c = 0; c < p->classes; c++) {
            const int64_t product = (int64_t)(total * dy[first + c] - weighted) * scratch[c];
            const int64_t half = 1 << (MCT_PROBABILITY_BITS - 1);
            scratch[c] = (MCT_ACC)((product + half) >> MCT_PROBABILITY_BITS);
        }
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->classes, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
