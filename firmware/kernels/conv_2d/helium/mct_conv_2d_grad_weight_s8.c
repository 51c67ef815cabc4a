/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_helium_weight.h"

typedef struct {
    const mct_step *step;
    int32_t *dw;
} mct_accumulated;

static void mct_take_accumulated(void *result, int32_t o, int32_t first, int32_t columns,
                                 const int32_t *sums) {
    const mct_accumulated *to = result;
    (void)o;
    mct_accumulate_s32(to->step, sums, columns, to->dw + first);
}

void mct_conv_2d_grad_weight_s8(const mct_conv_2d_grad_weight_s8_params *p, const mct_step *step,
                                const int8_t *dy, const int8_t *x, int32_t *dw, int32_t *scratch) {
    (void)scratch;
    mct_accumulated result = {step, dw};
    mct_weight_run(&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, mct_take_accumulated,
                   &result);
}
