/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_2d_trained_sum.h"
#include "mct_fixedpoint.h"

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    (void)scratch;
    const mct_conv_2d_parts parts = {p, x, w, trained};
    const int32_t first = mct_conv_2d_first(p, trained);
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            for (int32_t o = 0; o < p->y.c; o++) {
                int32_t acc = b[o] + mct_conv_2d_sum(&p->x, &p->window, p->x_zero_point, x, w,
                                                     first, o, row, column);
                if (trained != NULL) {
                    acc += mct_conv_2d_trained_sum(&parts, o, row, column);
                }
                mct_requantize_store(&p->requantize, acc, o, i++, y, mask);
            }
        }
    }
}
