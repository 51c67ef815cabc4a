/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_update.h"
#include "mct_dsp_weight.h"
#include "mct_grouped_conv_2d.h"

void mct_grouped_conv_2d_update_weight_s8(const mct_grouped_conv_2d_update_weight_s8_params *p,
                                          const mct_step *step, const int8_t *dy,
                                          const mct_exponent *dy_exponent, const int8_t *x,
                                          int32_t *scratch) {
    (void)scratch;
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c / p->groups;
    const int32_t positions = p->dy.h * p->dy.w;
    const mct_updater updater = mct_update_begin_s8(&p->parameter, step, dy_exponent, positions);
    mct_dsp_updated result = mct_dsp_updated_of(&updater, row);
    mct_weight_run(&p->x, &p->dy, &p->window, p->groups, p->x_zero_point, dy, x,
                   mct_dsp_take_updated, mct_dsp_take_nothing, &result);
}
