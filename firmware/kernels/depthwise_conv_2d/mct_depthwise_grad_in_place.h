/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a depthwise convolution's input in the place of that of its output: channel by channel,
 * each of which is set aside before. For any window that keeps an image's size. */
#ifndef MCT_DEPTHWISE_GRAD_IN_PLACE_H
#define MCT_DEPTHWISE_GRAD_IN_PLACE_H

#include "mct_gradient.h"

/* sum over the windows that read the pixel (row, column); plane: dy's channel, w: its first weight */
static inline MCT_ACC mct_depthwise_grad_sum(const mct_shape *shape, const mct_window *win,
                                             const int8_t *w, const MCT_GRAD *plane, int32_t row,
                                             int32_t column) {
    int32_t iy = row + win->pad_top;
    MCT_ACC sum = 0;
    for (int32_t ky = 0; ky < win->kernel_h; ky++, iy -= win->dilation_h) {
        int32_t ix = column + win->pad_left;
        for (int32_t kx = 0; kx < win->kernel_w; kx++, w += shape->c, ix -= win->dilation_w) {
            if (iy >= 0 && iy < shape->h && ix >= 0 && ix < shape->w) {
                sum += (MCT_ACC)(plane[iy * shape->w + ix] * *w);
            }
        }
    }
    return sum;
}

/* plane: one channel */
static inline void mct_depthwise_grad_in_place(const mct_shape *shape, const mct_window *win,
                                               const int8_t *w, MCT_GRAD *dx, MCT_GRAD *plane,
                                               mct_gradient_writer *writer) {
    const int32_t positions = shape->h * shape->w;
    for (int32_t c = 0; c < shape->c; c++) {
        for (int32_t i = 0; i < positions; i++) {
            plane[i] = dx[i * shape->c + c];
        }
        int32_t i = c;
        for (int32_t row = 0; row < shape->h; row++) {
            for (int32_t column = 0; column < shape->w; column++, i += shape->c) {
                const MCT_ACC sum = mct_depthwise_grad_sum(shape, win, w + c, plane, row, column);
                MCT_NAME(mct_gradient_put)(writer, sum, c, i, dx + i);
            }
        }
    }
}

#endif
