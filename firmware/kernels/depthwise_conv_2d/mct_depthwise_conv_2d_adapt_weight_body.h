/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_depthwise_conv_2d_adapt_weight_<type>. */
#include "mct_depthwise_conv_2d_weight_tap_body.h"

void MCT_NAME(mct_depthwise_conv_2d_adapt_weight)(
    const MCT_PARAMS(mct_depthwise_conv_2d_adapt_weight) *p, const mct_step *step,
    const MCT_GRAD *dy, const mct_exponent *dy_exponent, const int8_t *x, MCT_ACC *scratch) {
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t j = 0; j < p->trained_channels; j++) {
        const int32_t i = p->x_columns != NULL ? p->x_columns[j] : j;
        const int32_t c = p->channels != NULL ? p->channels[j] : j;
        const mct_channel channel = {j, j, p->trained_channels, taps};
        for (int32_t tap = 0; tap < taps; tap++) {
            mct_depthwise_weight_tap(&p->x, &p->dy, &p->window, p->x_zero_point, NULL, NULL, 1,
                                     dy + c, x + i, tap, &scratch[tap]);
        }
        mct_adapt_s8(&updater, &p->rule, channel, MCT_NARROW(scratch, taps));
    }
}
