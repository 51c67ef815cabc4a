/* SPDX-License-Identifier: Apache-2.0 */
/* One channel of a depthwise convolution, a band of output rows at a time: forward, and backward with the
 * taps turned.
 *
 * A band keeps the rows of the image that its windows read, as words of two neighbours, x[i] + x[i + 1] *
 * 2^16, with `fill` left and right: a product is two taps. Where rows lie and which windows read them is
 * the same for all channels, so it is decided once if one band has all rows. Each row is read once, before
 * the output row of its number is made, if the window keeps an image's size: then an output may take the
 * image's place. */
#ifndef MCT_ARMV6M_PLANE_H
#define MCT_ARMV6M_PLANE_H

#include "mct_armv6m.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pairs of taps that are multiplied in one round, and rounds of a band. */
#define MCT_ARMV6M_TAPS 4
#define MCT_ARMV6M_ROUNDS 16

/* Pairs of taps in one row of the window, and the output rows whose windows have pixels there. */
typedef struct {
    const uint32_t *v, *w; /* pixels of the first window, and weights */
    int32_t *sums, *end;
} mct_armv6m_round;

/* Sums of products v * w, round by round. Of the next sum in a row, v is `step` bytes further. */
typedef struct {
    const mct_armv6m_round *round, *rounds_end;
    int32_t row;     /* bytes of an output row's sums */
    int32_t step;    /* from one window to the next */
    int32_t v_gap;   /* from the end of a row's windows to the next row's */
    int32_t gap;     /* bytes of the sums between two rows of a round */
    int32_t pairs;   /* 1 to 4 */
    uint32_t start;  /* of all sums, modulo 2^32 */
    int32_t further; /* from a row of the window to the next */
} mct_armv6m_rows;

/* All sums get their rounds' products, besides what they hold. */
void mct_armv6m_add_rounds(const mct_armv6m_rows *rows);

/* The same for windows of three rows and two pairs that all sums have: they get `start` and products. */
void mct_armv6m_make_three(const mct_armv6m_rows *rows);

/* to … end - 1 */
void mct_armv6m_fill(uint32_t *to, const uint32_t *end, uint32_t value);

/* A row of pixels p[0] … p[count - 1] gives count + 1 words: fill + p[0] * 2^16, p[0] + p[1] * 2^16 … */
typedef struct {
    const int8_t *x; /* of the first row */
    int32_t pixel;   /* from one pixel to the next */
    uint32_t *to;
    int32_t count; /* at least 1 */
    int32_t line;  /* from one row to the next: bytes of x */
    int32_t width; /* and bytes of `to` */
    int32_t rows;  /* at least 1 */
    int32_t fill;
} mct_armv6m_load;

void mct_armv6m_load_rows(const mct_armv6m_load *load);

/* Weights as words of two taps, second + first * 2^16; a last one alone is last * 2^16. */
typedef struct {
    const int8_t *w;
    int32_t step; /* from one tap to the next */
    uint32_t *to;
    int32_t pairs; /* bytes of the words of two in a row */
    int32_t is_odd;
    int32_t row; /* bytes from one row of words to the next */
    const uint32_t *end;
    int32_t sum; /* becomes that of all taps */
} mct_armv6m_taps;

/* Whether no pair is -128 twice. */
int32_t mct_armv6m_pack_taps(mct_armv6m_taps *taps);

typedef struct {
    int32_t pixel; /* of the image: from one to the next */
    int32_t h, w;
    int32_t spread_h, spread_w; /* how far its rows and columns lie apart, with 0 between; 1: not */
    int32_t fill;               /* what is around the image, a value of int8; 0 if it is spread */
    int32_t kernel_h, kernel_w, dilation_h, stride_h, stride_w, pad_top, pad_left;
    int32_t rows, columns; /* of the output */

    int32_t groups;      /* rounds that take a row of the window */
    int32_t width;       /* words of a row that is kept */
    int32_t band;        /* output rows of a band */
    int32_t has_border;  /* whether rows of `fill` are kept above and below the image */
    int32_t is_three;    /* whether mct_armv6m_make_three makes the sums */
    int32_t skip, at;    /* pixels left of the windows, and the first word of those in them */
    const int8_t *image; /* the channel's first pixel */
    int32_t row;         /* the next one of the output */
    int32_t base, stop;  /* rows that a band's windows span, as the image's rows are numbered */
    int32_t loaded;      /* the next row of the image to be read */
    int32_t is_exact;
    int32_t *sums; /* of a band */
    uint32_t *kept;
    mct_armv6m_taps taps;
    mct_armv6m_load load;
    mct_armv6m_rows of;
    mct_armv6m_round rounds[MCT_ARMV6M_ROUNDS];
    uint32_t panel[MCT_ARMV6M_WORDS];
} mct_armv6m_plane;

/* Completes a plane, of which everything up to `columns` is known. Whether there is room for it. */
int32_t mct_armv6m_plane_fits(mct_armv6m_plane *plane);

/* Takes a channel. w: its tap at the window's top left, w_step: from one tap to the next. start: of its
 * sums, modulo 2^32 */
void mct_armv6m_plane_take(mct_armv6m_plane *plane, const int8_t *image, const int8_t *w,
                           int32_t w_step, uint32_t start);

/* The sums of the next rows of the output: `start` and the products of weights and pixels less `fill`.
 * Returns how many these are; 0 after the last one. */
int32_t mct_armv6m_plane_next(mct_armv6m_plane *plane);

#ifdef __cplusplus
}
#endif

#endif
