/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_window.h"

/* Sums of one row of a convolution's weight gradient: [kernel_h][kernel_w][channels of x]. */

static void mct_conv_2d_weight_row(const mct_shape *x_shape, const mct_shape *dy_shape,
                                   const mct_window *win, int32_t x_zero_point, const MCT_GRAD *dy,
                                   const int8_t *x, int32_t o, MCT_ACC *sums) {
    const int32_t row_size = win->kernel_h * win->kernel_w * x_shape->c;
    for (int32_t k = 0; k < row_size; k++) {
        sums[k] = 0;
    }
    for (int32_t position = 0; position < dy_shape->h * dy_shape->w; position++) {
        const MCT_GRAD d = dy[position * dy_shape->c + o];
        if (d == 0) {
            continue;
        }
        for (int32_t tap = 0; tap < win->kernel_h * win->kernel_w; tap++) {
            const int32_t at = mct_window_tap_2d(win, x_shape, position / dy_shape->w,
                                                 position % dy_shape->w, tap);
            if (at < 0) {
                continue;
            }
            const int8_t *xs = x + at * x_shape->c;
            MCT_ACC *out = sums + tap * x_shape->c;
            for (int32_t i = 0; i < x_shape->c; i++) {
                out[i] += (MCT_ACC)(d * (xs[i] - x_zero_point));
            }
        }
    }
}
