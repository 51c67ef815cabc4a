/* The inner sums of the portable convolution bodies. */
#ifndef MCT_CONV_2D_SUM_H
#define MCT_CONV_2D_SUM_H

#include "mct_types.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* sum over the window at (row, column) of (x - x_zero_point) * w_row; w_row: [ky][kx][in] */
static inline MCT_SUM mct_conv_2d_sum(const mct_shape *shape, const mct_window *window,
                                      int32_t x_zero_point, const int8_t *x, const int8_t *w_row,
                                      int32_t row, int32_t column) {
    MCT_SUM sum = 0;
    for (int32_t tap = 0; tap < window->kernel_h * window->kernel_w; tap++) {
        const int32_t at = mct_window_tap_2d(window, shape, row, column, tap);
        if (at < 0) {
            continue;
        }
        const int8_t *xs = x + at * shape->c;
        const int8_t *ws = w_row + tap * shape->c;
        for (int32_t i = 0; i < shape->c; i++) {
            sum += (xs[i] - x_zero_point) * ws[i];
        }
    }
    return sum;
}

#endif
