/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise.h"
#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_requantize_tile.h"

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    mct_requantized result = {
        &p->requantize, b, p->y.c, y, mask, mct_most_of(taps, MCT_MOST_OF_A_TERM)};
    const mct_depthwise depthwise = {
        .from = p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .window = p->window,
        .upsample_h = 1,
        .upsample_w = 1,
        .zero_point = p->x_zero_point,
        .x = x,
        .w = w,
        .take = mct_take_requantized,
        .result = &result,
    };
    const int fits = p->x.c == p->y.c && mct_depthwise_fits(&depthwise);
    if (!fits || (x == y && !mct_depthwise_is_whole(&depthwise))) {
        mct_depthwise_any(p, x, w, b, y, mask, scratch);
        return;
    }
    mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
    mct_depthwise_run(&depthwise);
}
