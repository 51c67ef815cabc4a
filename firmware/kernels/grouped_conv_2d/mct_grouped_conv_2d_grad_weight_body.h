/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_grouped_conv_2d_grad_weight_<type>. */
#include "mct_grouped_conv_2d_weight_row_body.h"

void MCT_NAME(mct_grouped_conv_2d_grad_weight)(const MCT_PARAMS(mct_grouped_conv_2d_grad_weight) *p,
                                               const mct_step *step, const MCT_GRAD *dy,
                                               const int8_t *x, int32_t *dw, MCT_ACC *scratch) {
    const int32_t columns = p->x.c / p->groups, outs = p->dy.c / p->groups;
    const int32_t row = p->window.kernel_h * p->window.kernel_w * columns;
    for (int32_t o = 0; o < p->dy.c; o++) {
        mct_grouped_weight_row(&p->x, &p->dy, &p->window, p->x_zero_point, dy + o,
                               x + o / outs * columns, columns, scratch);
        MCT_ACCUMULATE(p, step, scratch, o * row, row, dw + o * row);
    }
}
