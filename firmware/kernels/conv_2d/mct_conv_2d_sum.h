/* SPDX-License-Identifier: Apache-2.0 */
/* The inner sums of the portable convolution bodies. */
#ifndef MCT_CONV_2D_SUM_H
#define MCT_CONV_2D_SUM_H

#include "mct_conv_2d.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* sum over the window at (row, column) of (x - x_zero_point) * w[o], from the column `first` on. Nothing
 * is divided: a Cortex-M0+ needs more time for that than for all else of a tap. */
static inline MCT_SUM mct_conv_2d_sum(const mct_shape *shape, const mct_window *window,
                                      int32_t x_zero_point, const int8_t *x, const int8_t *w,
                                      int32_t first, int32_t o, int32_t row, int32_t column) {
    const int32_t left = column * window->stride_w - window->pad_left;
    int32_t tap = o * window->kernel_h * window->kernel_w;
    int32_t iy = row * window->stride_h - window->pad_top;
    MCT_SUM sum = 0;
    for (int32_t ky = 0; ky < window->kernel_h; ky++, iy += window->dilation_h) {
        int32_t ix = left;
        for (int32_t kx = 0; kx < window->kernel_w; kx++, tap++, ix += window->dilation_w) {
            if (iy < 0 || iy >= shape->h || ix < 0 || ix >= shape->w) {
                continue;
            }
            const int8_t *xs = x + (iy * shape->w + ix) * shape->c;
            const int8_t *ws = w + tap * shape->c;
            for (int32_t i = first; i < shape->c; i++) {
                sum += (xs[i] - x_zero_point) * ws[i];
            }
        }
    }
    return sum;
}

#endif
