/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_tiled_weight.h"

void mct_conv_2d_grad_weight_s8(const mct_conv_2d_grad_weight_s8_params *p, const mct_step *step,
                                const int8_t *dy, const int8_t *x, int32_t *dw, int32_t *scratch) {
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    for (int32_t o = 0; o < p->dy.c; o++) {
        mct_weight_row(&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, o, scratch);
        mct_accumulate_s32(step, scratch, row, dw + o * row);
    }
}
