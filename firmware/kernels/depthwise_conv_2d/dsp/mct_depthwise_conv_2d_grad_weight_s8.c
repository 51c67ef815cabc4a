/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise_weight.h"

typedef struct {
    const mct_step *step;
    int32_t *dw;
    int32_t count;
} mct_accumulated;

static void mct_take_accumulated(void *result, int32_t j, int32_t tap, int32_t step, int32_t taps,
                                 const int32_t *sums) {
    const mct_accumulated *to = result;
    for (int32_t n = 0; n < taps; n++) {
        mct_accumulate_s32(to->step, sums + n, 1, to->dw + (tap + n * step) * to->count + j);
    }
}

void mct_depthwise_conv_2d_grad_weight_s8(const mct_depthwise_conv_2d_grad_weight_s8_params *p,
                                          const mct_step *step, const int8_t *dy, const int8_t *x,
                                          int32_t *dw, int32_t *scratch) {
    const mct_depthwise_weights weights = {
        &p->x,       &p->dy, &p->window, p->x_zero_point, p->trained_channels, p->x_columns,
        p->channels, x,      dy};
    mct_accumulated result = {step, dw, p->trained_channels};
    (void)scratch;
    mct_depthwise_weight_run(&weights, mct_take_accumulated, &result);
}
