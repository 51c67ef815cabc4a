/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise_weight.h"

typedef struct {
    const mct_updater *updater;
    int32_t count;
} mct_updated;

static void mct_take_updated(void *result, int32_t j, int32_t tap, int32_t step, int32_t taps,
                             const int32_t *sums) {
    const mct_updated *to = result;
    const mct_rate rate = mct_update_rate(to->updater, j);
    mct_update_apart_s8(to->updater, &rate, sums, tap * to->count + j, taps, step * to->count);
}

void mct_depthwise_conv_2d_update_weight_s8(const mct_depthwise_conv_2d_update_weight_s8_params *p,
                                            const mct_step *step, const int8_t *dy,
                                            const mct_exponent *dy_exponent, const int8_t *x,
                                            int32_t *scratch) {
    const mct_updater updater =
        mct_update_begin_s8(&p->parameter, step, dy_exponent, p->dy.h * p->dy.w);
    const mct_depthwise_weights weights = {
        &p->x,       &p->dy, &p->window, p->x_zero_point, p->trained_channels, p->x_columns,
        p->channels, x,      dy};
    mct_updated result = {&updater, p->trained_channels};
    (void)scratch;
    mct_depthwise_weight_run(&weights, mct_take_updated, &result);
}
