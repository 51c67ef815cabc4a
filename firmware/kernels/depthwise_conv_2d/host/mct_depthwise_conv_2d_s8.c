#include "mct_depthwise.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_requantize_tile.h"
#include "mct_window.h"

/* One sum, for any window and channel multiplier. */
static int32_t mct_depthwise_sum(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                                 const int8_t *w, int32_t position, int32_t c) {
    const int32_t i = c / (p->y.c / p->x.c);
    int32_t sum = 0;
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t at =
            mct_window_tap_2d(&p->window, &p->x, position / p->y.w, position % p->y.w, tap);
        if (at >= 0) {
            sum += (x[at * p->x.c + i] - p->x_zero_point) * w[tap * p->y.c + c];
        }
    }
    return sum;
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
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
    if (p->x.c == p->y.c && mct_depthwise_fits(&depthwise)) {
        mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
        mct_depthwise_run(&depthwise);
        return;
    }
    int32_t i = 0;
    for (int32_t position = 0; position < p->y.h * p->y.w; position++) {
        for (int32_t c = 0; c < p->y.c; c++) {
            const int32_t acc = b[c] + mct_depthwise_sum(p, x, w, position, c);
            mct_requantize_store(&p->requantize, acc, c, i++, y, mask);
        }
    }
}
