/* SPDX-License-Identifier: Apache-2.0 */
#define MCT_SUM int64_t

#include "mct_depthwise_conv_2d.h"
#include "mct_depthwise_conv_2d_sum.h"
#include "mct_fixedpoint.h"

void mct_depthwise_conv_2d_wide_s8(const mct_depthwise_conv_2d_wide_s8_params *p, const int8_t *x,
                                   const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
    const int32_t multiplier = p->y.c / p->x.c;
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            for (int32_t in = 0, c = 0; in < p->x.c; in++) {
                for (int32_t m = 0; m < multiplier; m++, c++) {
                    const int64_t acc =
                        b[c] + mct_depthwise_sum(&p->x, &p->window, p->x_zero_point, x + in, w + c,
                                                 p->y.c, row, column);
                    mct_requantize_store_wide(&p->requantize, acc, c, i++, y, mask);
                }
            }
        }
    }
}
