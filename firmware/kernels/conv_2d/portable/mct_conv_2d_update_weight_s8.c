/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_2d_update_one.h"
#include "mct_tiled_weight.h"

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
    for (int32_t o = 0; o < p->dy.c; o++) {
        if (mct_weight_is_silent(dy + o, positions, p->dy.c)) {
            mct_update_nothing_s8(&updater, o * row, row);
        } else {
            mct_weight_row(&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, o, scratch);
            mct_update_row_s8(&updater, o, scratch, o * row, row);
        }
    }
}
