#include "mct_depthwise.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_depthwise_in_place.h"
#include "mct_requantize_tile.h"
#include "mct_window.h"

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    mct_requantized result = {&p->requantize, b, p->y.c, y, mask};
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
    if (x == y && !(fits && mct_depthwise_is_whole(&depthwise))) {
        mct_depthwise_in_place(p, w, b, y, mask, scratch);
        return;
    }
    if (fits) {
        mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
        mct_depthwise_run(&depthwise);
        return;
    }
    const int32_t multiplier = p->y.c / p->x.c;
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            for (int32_t c = 0; c < p->y.c; c++) {
                const int32_t sum =
                    mct_depthwise_sum(&p->x, &p->window, p->x_zero_point, x + c / multiplier, w + c,
                                      p->y.c, row, column);
                mct_requantize_store(&p->requantize, b[c] + sum, c, i++, y, mask);
            }
        }
    }
}
