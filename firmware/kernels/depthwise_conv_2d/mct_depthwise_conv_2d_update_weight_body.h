/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_depthwise_conv_2d_update_weight_<type>. */
#include "mct_depthwise_conv_2d_weight_tap_body.h"

void MCT_NAME(mct_depthwise_conv_2d_update_weight)(
    const MCT_PARAMS(mct_depthwise_conv_2d_update_weight) *p, const mct_step *step,
    const MCT_GRAD *dy, const mct_exponent *dy_exponent, const int8_t *x, MCT_ACC *scratch) {
    const int32_t count = p->trained_channels;
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        mct_depthwise_weight_tap(&p->x, &p->dy, &p->window, p->x_zero_point, p->x_columns,
                                 p->channels, count, dy, x, tap, scratch);
        MCT_UPDATE_CHANNELS(&updater, scratch, tap * count, count);
    }
}
