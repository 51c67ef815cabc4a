/* SPDX-License-Identifier: Apache-2.0 */
/* The inner sum of the portable depthwise bodies. */
#ifndef MCT_DEPTHWISE_CONV_2D_SUM_H
#define MCT_DEPTHWISE_CONV_2D_SUM_H

#include "mct_depthwise_conv_2d.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* sum over the window at (row, column) of (x - zero_point) * w, of one channel. x, w: its first numbers;
 * shape->c: from one pixel of x to the next, w_step: from one tap to the next. Nothing is divided: a
 * Cortex-M0+ needs more time for that than for all else of a tap. */
static inline MCT_SUM mct_depthwise_sum(const mct_shape *shape, const mct_window *win,
                                        int32_t zero_point, const int8_t *x, const int8_t *w,
                                        int32_t w_step, int32_t row, int32_t column) {
    const int32_t left = column * win->stride_w - win->pad_left;
    int32_t iy = row * win->stride_h - win->pad_top;
    MCT_SUM sum = 0;
    for (int32_t ky = 0; ky < win->kernel_h; ky++, iy += win->dilation_h) {
        int32_t ix = left;
        for (int32_t kx = 0; kx < win->kernel_w; kx++, w += w_step, ix += win->dilation_w) {
            if (iy >= 0 && iy < shape->h && ix >= 0 && ix < shape->w) {
                sum += (x[(iy * shape->w + ix) * shape->c] - zero_point) * *w;
            }
        }
    }
    return sum;
}

#endif
