/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_fixedpoint.h"
#include "mct_grouped_conv_2d.h"
#include "mct_grouped_conv_2d_sum.h"

void mct_grouped_conv_2d_s8(const mct_grouped_conv_2d_s8_params *p, const int8_t *x,
                            const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
    const int32_t ins = p->x.c / p->groups, outs = p->y.c / p->groups;
    const int32_t w_row = p->window.kernel_h * p->window.kernel_w * ins;
    int32_t at = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            int32_t o = 0;
            for (int32_t group = 0; group < p->groups; group++) {
                for (const int32_t end = o + outs; o < end; o++) {
                    const int32_t acc =
                        b[o] + mct_grouped_conv_2d_sum(p, x + group * ins, w + o * w_row, ins, row,
                                                       column);
                    mct_requantize_store(&p->requantize, acc, o, at++, y, mask);
                }
            }
        }
    }
}
