/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_2d_update_one.h"
#include "mct_dsp_update.h"
#include "mct_dsp_weight.h"

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  int32_t *scratch) {
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    const int32_t positions = p->dy.h * p->dy.w;
    const mct_updater updater = mct_update_begin_s8(&p->parameter, step, dy_exponent, positions);
    if (positions == 1) {
        mct_conv_2d_update_one(p, &updater, dy, x, scratch);
        return;
    }
    mct_dsp_updated result = mct_dsp_updated_of(&updater, row);
    mct_weight_run(&p->x, &p->dy, &p->window, 1, p->x_zero_point, dy, x, mct_dsp_take_updated,
                   mct_dsp_take_nothing, &result);
}
