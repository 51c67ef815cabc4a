/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_depthwise_weight_tap.h"
#include "mct_grad_s8.h"
#include "mct_update_row.h"

void mct_depthwise_conv_2d_update_weight_s8(const mct_depthwise_conv_2d_update_weight_s8_params *p,
                                            const mct_step *step, const int8_t *dy,
                                            const mct_exponent *dy_exponent, const int8_t *x,
                                            int32_t *scratch) {
    const int32_t count = p->trained_channels;
    const mct_depthwise_weight_job job = {
        &p->x, &p->dy, &p->window, p->x_zero_point, count, p->x_columns, p->channels, dy, x};
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        mct_depthwise_weight_tap(&job, tap, scratch);
        mct_update_row_vector(&updater, -1, scratch, tap * count, count, INT32_MAX);
    }
}
