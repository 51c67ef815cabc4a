/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_conv_2d_adapt_weight_<type>. */
#include "mct_conv_2d_weight_row_body.h"

void MCT_NAME(mct_conv_2d_adapt_weight)(const MCT_PARAMS(mct_conv_2d_adapt_weight) *p,
                                        const mct_step *step, const MCT_GRAD *dy,
                                        const mct_exponent *dy_exponent, const int8_t *x,
                                        MCT_ACC *scratch) {
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t o = 0; o < p->dy.c; o++) {
        const mct_channel channel = {o, o * row, 1, row};
        mct_conv_2d_weight_row(&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, o, scratch);
        mct_adapt_s8(&updater, &p->rule, channel, MCT_NARROW(scratch, row));
    }
}
