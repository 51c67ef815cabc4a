/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of what is trained of a weight in the portable convolution bodies. */
#ifndef MCT_CONV_2D_TRAINED_SUM_H
#define MCT_CONV_2D_TRAINED_SUM_H

#include "mct_conv_2d_sum.h"
#include "mct_window.h"

/* A convolution with a partly trained weight, and its operands. */
typedef struct {
    const mct_conv_2d_s8_params *p;
    const int8_t *x, *w, *trained;
} mct_conv_2d_parts;

/* The first column that mct_conv_2d_sum reads; those before are trained. trained: NULL if none is. */
static inline int32_t mct_conv_2d_first(const mct_conv_2d_s8_params *p, const int8_t *trained) {
    return trained != NULL && p->trained.channels == NULL ? p->trained.columns : 0;
}

/* What mct_conv_2d_sum lacks of the sum with the trained columns: where these lie between the others it
 * has summed w's own, which are less than 2^30, as the trained ones are. A function of its own, of four
 * arguments, so that other convolutions need no stack for it, and no time for each tap. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static MCT_SUM mct_conv_2d_trained_sum(const mct_conv_2d_parts *parts, int32_t o, int32_t row,
                                       int32_t column) {
    const mct_conv_2d_s8_params *p = parts->p;
    const mct_window *window = &p->window;
    const int32_t channels = p->x.c, count = p->trained.columns, x_zero_point = p->x_zero_point;
    const int32_t left = column * window->stride_w - window->pad_left;
    int32_t tap = o * window->kernel_h * window->kernel_w;
    int32_t iy = row * window->stride_h - window->pad_top;
    MCT_SUM sum = 0;
    for (int32_t ky = 0; ky < window->kernel_h; ky++, iy += window->dilation_h) {
        int32_t ix = left;
        for (int32_t kx = 0; kx < window->kernel_w; kx++, tap++, ix += window->dilation_w) {
            if (iy < 0 || iy >= p->x.h || ix < 0 || ix >= p->x.w) {
                continue;
            }
            const int8_t *x = parts->x + (iy * p->x.w + ix) * channels;
            const int8_t *w = parts->w + tap * channels;
            const int8_t *trained = parts->trained + tap * count, *end = trained + count;
            const int16_t *channel = p->trained.channels;
            if (channel == NULL) {
                while (trained < end) {
                    sum += (*x++ - x_zero_point) * *trained++;
                }
            }
            while (trained < end) {
                const int32_t i = *channel++;
                sum += (x[i] - x_zero_point) * (*trained++ - w[i]);
            }
        }
    }
    return sum;
}

#endif
