/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_tiled_depthwise_weight.h"

void mct_depthwise_conv_2d_grad_weight_s8(const mct_depthwise_conv_2d_grad_weight_s8_params *p,
                                          const mct_step *step, const int8_t *dy, const int8_t *x,
                                          int32_t *dw, int32_t *scratch) {
    const int32_t count = p->trained_channels;
    mct_weight_tap t = {
        .x = &p->x, .dy = &p->dy, .window = &p->window, .zero_point = p->x_zero_point};
    for (int32_t ky = 0; ky < p->window.kernel_h; ky++) {
        for (int32_t kx = 0; kx < p->window.kernel_w; kx++, dw += count) {
            mct_weight_tap_sums(&t, ky, kx, dy, x, count, p->channels, p->x_columns, scratch);
            mct_accumulate_s32(step, scratch, count, dw);
        }
    }
}
