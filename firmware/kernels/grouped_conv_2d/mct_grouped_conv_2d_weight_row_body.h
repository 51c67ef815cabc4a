/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_window.h"

/* Sums of one row of the weight's gradient: [kernel_h][kernel_w][columns]. x: from the row's group on. */
static void mct_grouped_weight_row(const mct_shape *x_shape, const mct_shape *dy_shape,
                                   const mct_window *win, int32_t x_zero_point, const MCT_GRAD *dy,
                                   const int8_t *x, int32_t columns, MCT_ACC *sums) {
    const int32_t taps = win->kernel_h * win->kernel_w;
    for (int32_t k = 0; k < taps * columns; k++) {
        sums[k] = 0;
    }
    for (int32_t row = 0; row < dy_shape->h; row++) {
        for (int32_t column = 0; column < dy_shape->w; column++, dy += dy_shape->c) {
            for (int32_t tap = 0; tap < taps && *dy != 0; tap++) {
                const int32_t at = mct_window_tap_2d(win, x_shape, row, column, tap);
                if (at < 0) {
                    continue;
                }
                const int8_t *xs = x + at * x_shape->c;
                MCT_ACC *out = sums + tap * columns;
                for (int32_t i = 0; i < columns; i++) {
                    out[i] += (MCT_ACC)(*dy * (xs[i] - x_zero_point));
                }
            }
        }
    }
}
