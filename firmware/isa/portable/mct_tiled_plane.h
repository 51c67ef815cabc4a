/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of a depthwise convolution, row by row: forward, and backward with the taps turned.
 *
 * Rows of the image are kept as they lie in the windows, with `fill` around, as many as a window spans:
 * so no tap is asked whether it lies in the image. Each row is read once, before the output row of its
 * number is asked for, if the window keeps an image's size: then an output may take the image's place. */
#ifndef MCT_TILED_PLANE_H
#define MCT_TILED_PLANE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes on the stack for a window's weights and the rows that are kept; rows of a window at most; sums
 * that are made at once, a multiple of 4. */
#ifndef MCT_TILED_PLANE_BYTES
#define MCT_TILED_PLANE_BYTES 640
#endif
#define MCT_TILED_PLANE_ROWS 11
#define MCT_TILED_PLANE_SUMS 32

/* A row of the image, and the weights of the window's row that lies over it. */
typedef struct {
    const int8_t *v, *w;
} mct_tiled_plane_line;

typedef struct {
    int32_t pixel;              /* from one pixel of the image to the next */
    int32_t h, w;               /* of the image */
    int32_t spread_h, spread_w; /* how far its rows and columns lie apart, `fill` between; 1: not */
    int32_t fill;               /* a value, what is left and right of the image, too */
    int32_t kernel_h, kernel_w, dilation_h, stride_h, stride_w, pad_top, pad_left;
    int32_t rows, columns; /* of the output */

    int32_t width, kept; /* bytes of a row, and rows of the image */
    int32_t loaded;      /* so many were read */
    int32_t first, count,
        at;             /* the first pixel of a row in the windows, how many, and its byte there */
    const int8_t *next; /* of the channel's next row */
    int8_t *weights, *ring, *ring_end, *newest;
    int32_t row_sums[MCT_TILED_PLANE_ROWS]; /* of the window's weights, times `fill` */
    int32_t start;                          /* of all sums; without what `fill` makes of them: */
    int32_t row, column, begin;             /* of the next sum */
    mct_tiled_plane_line
        lines[MCT_TILED_PLANE_ROWS]; /* of its window, as far as there is an image */
    const mct_tiled_plane_line *lines_end;
    int32_t sums[MCT_TILED_PLANE_SUMS + 3]; /* whole tiles are written */
    int8_t bytes[MCT_TILED_PLANE_BYTES];
} mct_tiled_plane;

/* Completes a plane, of which everything above `width` is known but the channel's. Whether there is room
 * for it. */
int32_t mct_tiled_plane_fits(mct_tiled_plane *plane);

/* Takes a channel. w: its tap at the window's top left, w_step: from one tap to the next. start: of its
 * sums */
void mct_tiled_plane_take(mct_tiled_plane *plane, const int8_t *image, const int8_t *w,
                          int32_t w_step, int32_t start);

/* Makes the next sums, in the order of the output's pixels: `start` and the products of weights and
 * pixels less `fill`. Returns how many these are; 0 after the last one. */
int32_t mct_tiled_plane_next(mct_tiled_plane *plane);

#ifdef __cplusplus
}
#endif

#endif
