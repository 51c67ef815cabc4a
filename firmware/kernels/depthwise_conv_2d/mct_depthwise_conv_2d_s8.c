#include "mct_depthwise_conv_2d.h"
#include "mct_fixedpoint.h"
#include "mct_window.h"

static int32_t mct_depthwise_sum(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                                 const int8_t *w, int32_t row, int32_t column, int32_t c) {
    const mct_window *win = &p->window;
    const int32_t i = c / (p->y.c / p->x.c);
    int32_t sum = 0;
    for (int32_t tap = 0; tap < win->kernel_h * win->kernel_w; tap++) {
        const int32_t at = mct_window_tap_2d(win, &p->x, row, column, tap);
        if (at >= 0) {
            sum += (x[at * p->x.c + i] - p->x_zero_point) * w[tap * p->y.c + c];
        }
    }
    return sum;
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            for (int32_t c = 0; c < p->y.c; c++) {
                const int32_t acc = b[c] + mct_depthwise_sum(p, x, w, row, column, c);
                mct_requantize_store(&p->requantize, acc, c, i++, y, mask);
            }
        }
    }
}
