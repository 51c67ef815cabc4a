/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_depthwise_conv_2d_grad_weight_<type>. */
#include "mct_depthwise_conv_2d_weight_tap_body.h"

void MCT_NAME(mct_depthwise_conv_2d_grad_weight)(
    const MCT_PARAMS(mct_depthwise_conv_2d_grad_weight) *p, const mct_step *step,
    const MCT_GRAD *dy, const int8_t *x, int32_t *dw, MCT_ACC *scratch) {
    const int32_t count = p->trained_channels;
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        mct_depthwise_weight_tap(&p->x, &p->dy, &p->window, p->x_zero_point, p->x_columns,
                                 p->channels, count, dy, x, tap, scratch);
        MCT_ACCUMULATE(p, step, scratch, tap * count, count, dw + tap * count);
    }
}
