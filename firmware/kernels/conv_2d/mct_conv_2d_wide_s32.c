/* SPDX-License-Identifier: Apache-2.0 */
#define MCT_SUM int64_t

#include "mct_conv_2d.h"
#include "mct_conv_2d_sum.h"
#include "mct_fixedpoint.h"

void mct_conv_2d_wide_s32(const mct_conv_2d_wide_s32_params *p, const int8_t *x, const int8_t *w,
                          const int32_t *b, int32_t *y) {
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            for (int32_t o = 0; o < p->y.c; o++) {
                *y++ = mct_saturate32(b[o] + mct_conv_2d_sum(&p->x, &p->window, p->x_zero_point, x,
                                                             w, 0, o, row, column));
            }
        }
    }
}
