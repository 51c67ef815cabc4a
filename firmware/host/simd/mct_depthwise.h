/* Sums of a window per channel: what a depthwise convolution and its input gradient share.
 *
 * sums[row][column][c] = sum over ky, kx of from(y, x)[c] * w[ky][kx][c]
 *     with y = row * stride_h + ky * dilation_h - pad_top, x alike. `from` is an image of which
 *     every row and column is followed by upsample - 1 of zeros; outside it is 0. */
#ifndef MCT_DEPTHWISE_H
#define MCT_DEPTHWISE_H

#include "mct_simd.h"
#include "mct_types.h"

typedef struct {
    mct_shape from;
    int32_t rows, columns;
    mct_window window;
    int32_t upsample_h, upsample_w;
    int32_t zero_point; /* taken from the elements of x */
    int32_t flipped;    /* 1: w is read from its end, w[kernel_h - 1 - ky][kernel_w - 1 - kx][c] */
    const int8_t *x, *w;

    /* sums[s * MCT_LANES + l] is the sum at (row, column + s) of channel c + l, s < columns,
     * l < lanes */
    void (*take)(void *result, int32_t row, int32_t column, int32_t columns, int32_t c,
                 int32_t lanes, const int32_t *sums);
    void *result;
} mct_depthwise;

/* Whether the window is small enough for mct_depthwise_run. */
int mct_depthwise_fits(const mct_depthwise *d);
void mct_depthwise_run(const mct_depthwise *d);

#endif
