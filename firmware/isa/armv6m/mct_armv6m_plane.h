/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of a depthwise convolution, row by row: forward, and backward with the taps turned.
 *
 * Rows of the image are kept as words of two neighbours, x[i] + x[i + 1] * 2^16, as many as a window
 * spans: a product is two taps. Each row is read once, before the output row of its number is asked for,
 * if the window keeps an image's size: then an output may take the image's place. */
#ifndef MCT_ARMV6M_PLANE_H
#define MCT_ARMV6M_PLANE_H

#include "mct_armv6m.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pairs of taps that are multiplied in one round, and rounds of an output row. */
#define MCT_ARMV6M_TAPS 4
#define MCT_ARMV6M_ROUNDS 16
/* Sums of several rows at once. */
#define MCT_ARMV6M_SUMS 64

/* A row of the image from its first window on, and words of weights. */
typedef struct {
    const uint32_t *v, *w;
} mct_armv6m_round;

/* sums … end - 1: `start`, and of each round the sum over its pairs of v * w; of the next sum v is `step`
 * bytes further. */
typedef struct {
    const mct_armv6m_round *round, *rounds_end;
    int32_t *sums;
    const int32_t *end;
    int32_t step;
    int32_t pairs;  /* 1 to 4 */
    uint32_t start; /* modulo 2^32, as the sums */
} mct_armv6m_row;

void mct_armv6m_add_row(const mct_armv6m_row *row);

typedef struct {
    const int8_t *image; /* the channel's first pixel */
    int32_t pixel;       /* from one pixel to the next */
    int32_t h, w;        /* of the image */
    int32_t spread_h,
        spread_w; /* how far its rows and columns lie apart, with `fill` between; 1: not */
    int32_t fill; /* a value, what is left and right of the image, too */
    int32_t kernel_h, kernel_w, dilation_h, stride_h, stride_w, pad_top, pad_left;
    int32_t columns; /* of the output */

    int32_t pairs, groups; /* of taps in a row of the window, and rounds that take them */
    int32_t width, kept;   /* words of a row, and rows of the image */
    int32_t first, skip;   /* the word of a row's first pixel in the windows; pixels left of them */
    int32_t pixels;        /* of a row in the windows; 0: or their rows are spread */
    int32_t loaded;        /* so many were read */
    int32_t is_exact;
    int32_t rows;  /* of the output that are asked for at once */
    int32_t *sums; /* of these */
    uint32_t *ring, *newest;
    uint32_t *weights;
    int32_t *row_sums; /* of the weights in a row of the window, times `fill` */
    mct_armv6m_round rounds[MCT_ARMV6M_ROUNDS];
    uint32_t panel[MCT_ARMV6M_WORDS];
} mct_armv6m_plane;

/* Completes a plane, of which everything above `columns` is known but the channel's. Whether there is
 * room for it. */
int32_t mct_armv6m_plane_fits(mct_armv6m_plane *plane);

/* Takes a channel. w: its tap at the window's top left, w_step: from one tap to the next */
void mct_armv6m_plane_take(mct_armv6m_plane *plane, const int8_t *image, const int8_t *w,
                           int32_t w_step);

/* The sums of plane->rows rows of the output, or of fewer before the row `end`: `start` and the products
 * of weights and pixels less `fill`. Rows are asked for in order. Returns how many sums these are. */
int32_t mct_armv6m_plane_rows(mct_armv6m_plane *plane, int32_t row, int32_t end, uint32_t start);

#ifdef __cplusplus
}
#endif

#endif
