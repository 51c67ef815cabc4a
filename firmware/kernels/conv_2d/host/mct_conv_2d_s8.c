/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_factors.h"
#include "mct_requantize_tile.h"

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    (void)scratch;
    const mct_conv_job job = {&p->x, &p->y, &p->window,  p->x_zero_point,
                              x,     w,     &p->trained, trained};
    mct_requantized result = {
        &p->requantize, b, p->y.c, y, mask, mct_most_of(mct_conv_depth(&job), MCT_MOST_OF_A_TERM)};
    mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
    mct_conv_run(&job, mct_take_requantized, &result);
}
