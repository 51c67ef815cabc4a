/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_weight_factors.h"

typedef struct {
    const mct_conv_2d_grad_weight_s8_params *p;
    const mct_step *step;
    int32_t tap;
    int32_t *dw;
} mct_accumulated;

static void mct_take_accumulated(void *result, const mct_tile *tile) {
    const mct_accumulated *to = result;
    const mct_conv_2d_grad_weight_s8_params *p = to->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t r = 0; r < tile->rows; r++) {
        const int32_t first = ((tile->row + r) * taps + to->tap) * p->x.c + tile->column;
        mct_accumulate_s32(to->step, tile->sums + r * tile->stride, tile->columns, to->dw + first);
    }
}

void mct_conv_2d_grad_weight_s8(const mct_conv_2d_grad_weight_s8_params *p, const mct_step *step,
                                const int8_t *dy, const int8_t *x, int32_t *dw, int32_t *scratch) {
    (void)scratch;
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const mct_weight_job job = {&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, tap};
        mct_accumulated result = {p, step, tap, dw};
        mct_weight_run(&job, mct_take_accumulated, &result);
    }
}
