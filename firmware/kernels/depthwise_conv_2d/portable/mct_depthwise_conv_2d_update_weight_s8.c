/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_tiled_depthwise_weight.h"

void mct_depthwise_conv_2d_update_weight_s8(const mct_depthwise_conv_2d_update_weight_s8_params *p,
                                            const mct_step *step, const int8_t *dy,
                                            const mct_exponent *dy_exponent, const int8_t *x,
                                            int32_t *scratch) {
    const int32_t count = p->trained_channels;
    const mct_updater updater =
        mct_update_begin_s8(&p->parameter, step, dy_exponent, p->dy.h * p->dy.w);
    mct_weight_tap t = {
        .x = &p->x, .dy = &p->dy, .window = &p->window, .zero_point = p->x_zero_point};
    int32_t first = 0;
    for (int32_t ky = 0; ky < p->window.kernel_h; ky++) {
        for (int32_t kx = 0; kx < p->window.kernel_w; kx++, first += count) {
            mct_weight_tap_sums(&t, ky, kx, dy, x, count, p->channels, p->x_columns, scratch);
            mct_update_channels_s8(&updater, scratch, first, count);
        }
    }
}
