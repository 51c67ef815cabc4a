/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of a depthwise convolution, row by row: forward, and backward with the taps turned.
 *
 * A band of output rows keeps the rows of the image that its windows read, with `fill` left and right: so
 * no tap is asked whether it lies in the image. Where they lie is the same for all channels, so it is
 * decided once if one band has all rows. Each row is read once, before the output row of its number is
 * asked for, if the window keeps an image's size: then an output may take the image's place. */
#ifndef MCT_TILED_PLANE_H
#define MCT_TILED_PLANE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words on the stack for sums, a window's weights and the rows that are kept. */
#ifndef MCT_TILED_PLANE_WORDS
#define MCT_TILED_PLANE_WORDS 196
#endif
/* Rows of a window at most; output rows that are made at once; columns of one for which there is room, a
 * multiple of 4, or fewer where rows are long. */
#define MCT_TILED_PLANE_ROWS 11
#define MCT_TILED_PLANE_MADE 8
#define MCT_TILED_PLANE_COLUMNS 64
#define MCT_TILED_PLANE_FEWER 32

/* An output row: where its windows meet the image. */
typedef struct {
    const int8_t *v, *w;  /* the first pixels and weights */
    int32_t extra;        /* of its sums: what the other rows have of `fill` */
    int16_t first, lines; /* the window's first row there, and how many there are */
} mct_tiled_plane_row;

typedef struct {
    int32_t pixel;              /* from one pixel of the image to the next */
    int32_t h, w;               /* of the image */
    int32_t spread_h, spread_w; /* how far its rows and columns lie apart, with 0 between; 1: not */
    int32_t fill;               /* what is around the image, a value of int8; 0 if it is spread */
    int32_t kernel_h, kernel_w, dilation_h, stride_h, stride_w, pad_top, pad_left;
    int32_t rows, columns; /* of the output */

    int32_t width;          /* bytes of a row that is kept */
    int32_t v_line, w_line; /* from one row of the window to the next: of these bytes, of weights */
    int32_t band, made;     /* output rows of a band, and whose sums are made at once */
    int32_t piece;          /* columns of them */
    int32_t first, count,
        at;              /* the first pixel of a row in the windows, how many, and its byte there */
    const int8_t *image; /* the channel's first pixel in the windows */
    int32_t row, column; /* of the next sum */
    int32_t now;         /* columns that are made now */
    int32_t band_end;    /* the first row that is not of the band */
    int32_t base, loaded; /* rows of the image: the first one that is kept, the next to be read */
    int32_t begin;        /* of all sums, besides their row's */
    int8_t *weights, *kept;
    int32_t row_sums[MCT_TILED_PLANE_ROWS]; /* of the window's weights, times `fill` */
    mct_tiled_plane_row lines[MCT_TILED_PLANE_MADE];
    int32_t sums[MCT_TILED_PLANE_WORDS]; /* and behind them weights and rows */
} mct_tiled_plane;

/* Completes a plane, of which everything up to `columns` is known. Whether there is room
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
