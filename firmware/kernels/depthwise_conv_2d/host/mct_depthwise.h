/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a window in each channel: what a depthwise convolution and its input gradient share.
 *
 * sum[row][column][c] = sum over ky, kx of from[y][x][c] * w[ky][kx][c]
 *     with y = row * stride_h + ky * dilation_h - pad_top, x alike. `from` is the image x, less
 *     zero_point, each row and column followed by upsample - 1 of zeros; outside it is 0. */
#ifndef MCT_DEPTHWISE_H
#define MCT_DEPTHWISE_H

#include "mct_tile.h"
#include "mct_types.h"

typedef struct {
    mct_shape from;
    int32_t rows, columns;
    mct_window window;
    int32_t upsample_h, upsample_w;
    int32_t zero_point;
    int32_t flipped; /* 1: w is turned by half, w[kernel_h - 1 - ky][kernel_w - 1 - kx][c] */
    const int8_t *x, *w;
    mct_take *take; /* a tile's rows are positions row * columns + column */
    void *result;
} mct_depthwise;

/* Whether the window is small enough for mct_depthwise_run. */
int mct_depthwise_fits(const mct_depthwise *d);

/* Whether each row of x is read once, and before that row of the result is taken: then the result may
 * overwrite x, if the window keeps an image's size. */
int mct_depthwise_is_whole(const mct_depthwise *d);

/* Needs 150 KB of stack. */
void mct_depthwise_run(const mct_depthwise *d);

#endif
