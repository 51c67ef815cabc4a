/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_dsp_weight16.h"

typedef struct {
    const mct_conv_2d_grad_weight_s16_params *p;
    const mct_step *step;
    int32_t *dw;
} mct_accumulated;

static void mct_take_accumulated(void *result, int32_t o, int32_t first, int32_t columns,
                                 const int32_t *narrow, const int64_t *wide) {
    const mct_accumulated *to = result;
    int64_t sums[4] = {0};
    for (int32_t l = 0; l < columns; l++) {
        sums[l] = wide == NULL ? narrow[l] : wide[l];
    }
    (void)o;
    mct_accumulate_wide_s32(&to->p->sum, to->step, sums, first, columns, to->dw + first);
}

void mct_conv_2d_grad_weight_s16(const mct_conv_2d_grad_weight_s16_params *p, const mct_step *step,
                                 const int16_t *dy, const int8_t *x, int32_t *dw,
                                 int64_t *scratch) {
    (void)scratch;
    mct_accumulated result = {p, step, dw};
    const mct_weight_image image = {&p->x, &p->dy, &p->window, p->x_zero_point, x};
    mct_weight16_run(image, dy, mct_take_accumulated, NULL, &result);
}
