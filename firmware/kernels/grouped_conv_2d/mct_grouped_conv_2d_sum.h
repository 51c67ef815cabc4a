/* SPDX-License-Identifier: Apache-2.0 */
/* The inner sums of the portable forward bodies. */
#ifndef MCT_GROUPED_CONV_2D_SUM_H
#define MCT_GROUPED_CONV_2D_SUM_H

#include "mct_grouped_conv_2d.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* sum over the window at (row, column) of (x - x_zero_point) * w. x: from the group's first channel on;
 * w: of the output channel. Nothing is divided, as in mct_conv_2d_sum.h. */
static inline MCT_SUM mct_grouped_conv_2d_sum(const mct_grouped_conv_2d_s8_params *p,
                                              const int8_t *x, const int8_t *w, int32_t channels,
                                              int32_t row, int32_t column) {
    const mct_window *window = &p->window;
    const int32_t left = column * window->stride_w - window->pad_left;
    int32_t iy = row * window->stride_h - window->pad_top;
    MCT_SUM sum = 0;
    for (int32_t ky = 0; ky < window->kernel_h; ky++, iy += window->dilation_h) {
        int32_t ix = left;
        for (int32_t kx = 0; kx < window->kernel_w; kx++, w += channels, ix += window->dilation_w) {
            if (iy < 0 || iy >= p->x.h || ix < 0 || ix >= p->x.w) {
                continue;
            }
            const int8_t *xs = x + (iy * p->x.w + ix) * p->x.c;
            for (int32_t i = 0; i < channels; i++) {
                sum += (xs[i] - p->x_zero_point) * w[i];
            }
        }
    }
    return sum;
}

#endif
