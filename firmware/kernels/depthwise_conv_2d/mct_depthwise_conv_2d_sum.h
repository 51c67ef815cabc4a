/* The inner sum of the portable depthwise bodies. */
#ifndef MCT_DEPTHWISE_CONV_2D_SUM_H
#define MCT_DEPTHWISE_CONV_2D_SUM_H

#include "mct_depthwise_conv_2d.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

static inline MCT_SUM mct_depthwise_sum(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                                        const int8_t *w, int32_t row, int32_t column, int32_t c) {
    const mct_window *win = &p->window;
    const int32_t i = c / (p->y.c / p->x.c);
    MCT_SUM sum = 0;
    for (int32_t tap = 0; tap < win->kernel_h * win->kernel_w; tap++) {
        const int32_t at = mct_window_tap_2d(win, &p->x, row, column, tap);
        if (at >= 0) {
            sum += (x[at * p->x.c + i] - p->x_zero_point) * w[tap * p->y.c + c];
        }
    }
    return sum;
}

#endif
