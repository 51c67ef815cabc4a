/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise sums, four channels at a time: each channel's rows lie in a plane of its own, as int16
 * with the padding of their columns, so that two taps are one instruction.
 *
 * sums[row][column] = sum over ky, kx of
 *     plane[row * stride_h + ky - pad_top][column * stride_w + kx - pad_left] * w[ky][kx]
 * where the planes hold x less its zero point, and zeros around. w[ky][kx] of channel c is
 * w[ky * w_row + kx * w_column + c].
 *
 * Columns are computed four at a time. Where that leaves less over, rows and columns are exchanged: all that follows
 * then calls columns what are rows elsewhere. */
#ifndef MCT_DSP_DEPTHWISE_H
#define MCT_DSP_DEPTHWISE_H

#include "mct_dsp.h"
#include "mct_dsp_panel.h"
#include "mct_dsp_plane.h"
#include "mct_fixedpoint.h"

#define MCT_STRIP_ROWS 8 /* of the result at a time */

typedef struct mct_depthwise_block mct_depthwise_block;

/* The columns of x that a block reads: the first one, how many, and the padding before. */
typedef struct {
    int32_t first, count, before;
} mct_depthwise_span;

/* Rows of x from `from` on, behind span.before columns of padding each, into the planes. */
typedef void mct_depthwise_load(const mct_depthwise_block *b, const int8_t *from,
                                mct_depthwise_span span, int32_t rows, uint32_t *to);

typedef struct {
    mct_shape from;
    int32_t turned;        /* 1: rows and columns are exchanged */
    int32_t rows, columns; /* of the result */
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left; /* or, negative, how many rows and columns come before the first */
    int32_t w_row, w_column;
    int32_t factor; /* of the weights: 1 or 2 */
    int32_t zero_point;
    int32_t tail; /* quarters of a word that a channel's pool keeps for a position of the strip */
    int32_t element_bytes; /* of x: 1 or 2 */
    mct_depthwise_load *load;
    const int8_t *x, *w;
    int8_t *aside; /* room for four channels of x, if the result overwrites it; else NULL */
} mct_depthwise;

/* How a result is cut into blocks of columns and strips of rows. */
typedef struct {
    int32_t kind;         /* of mct_dsp_plane.h; -1: none of them */
    int32_t width;        /* of the kernel, with weights of 0 behind its own */
    int32_t row_words;    /* of a row of weights */
    int32_t filter_words; /* of all of them */
    int32_t zero_row;     /* 1: a plane begins with a row of zeros, for what lies outside of x */
    int32_t columns;      /* in a block, a multiple of 4; 0: it does not fit */
    int32_t rows;         /* in a strip */
    int32_t pairs;        /* in a row of a plane */
    int32_t slots;        /* rows of a plane */
} mct_depthwise_cut;

struct mct_depthwise_block {
    mct_depthwise d;
    mct_depthwise_cut cut;
    const int8_t *x;         /* the channels' first numbers */
    int32_t pixel;           /* from one pixel of x to the next, in bytes */
    int32_t c, channels;     /* the first channel, and how many, 1 to 4 */
    int32_t column, columns; /* of the result: the first, and how many */
    int32_t row, rows;       /* of the strip: the first, and how many */
    int32_t top, end;        /* the rows of x that the planes hold */
    int32_t padded;          /* the column of the result whose padding the planes have; or -1 */
    int32_t listed;          /* the row of the result that the table begins with; or -1 */
    mct_tile_plane tile;     /* of the strip; of each channel only what differs is set anew */
    uint32_t table[3 * MCT_STRIP_ROWS];
    /* of each channel its weights, behind them rows of its plane, at the end room for results */
    uint32_t pool[4][MCT_POOL_WORDS];
};

/* Takes the strip's sums of all channels of the block. */
typedef void mct_depthwise_take(void *result, mct_depthwise_block *b);
/* Prepares for the channels of a block. */
typedef void mct_depthwise_begin(void *result, const mct_depthwise_block *b);

/* The cut that takes the least time; columns = 0 if there is none. */
mct_depthwise_cut mct_depthwise_cut_of(const mct_depthwise *d);

/* Exchanges rows and columns. */
void mct_depthwise_turn(mct_depthwise *d);

/* Exchanges them if that is better; 0: there is no cut. */
int mct_depthwise_choose(mct_depthwise *d);

/* How far the next column and the next row of x are, in bytes. */
static inline int32_t mct_depthwise_column_bytes(const mct_depthwise_block *b) {
    return b->d.turned ? b->pixel * b->d.from.h : b->pixel;
}
static inline int32_t mct_depthwise_row_bytes(const mct_depthwise_block *b) {
    return b->d.turned ? b->pixel : b->pixel * b->d.from.w;
}

/* Computes b->d, all else of b is its own. Only if it has a cut. */
void mct_depthwise_run(mct_depthwise_block *b, mct_depthwise_begin *begin, mct_depthwise_take *take,
                       void *result);

/* Loads int8. */
void mct_depthwise_load_s8(const mct_depthwise_block *b, const int8_t *from,
                           mct_depthwise_span span, int32_t rows, uint32_t *to);

/* Runs the block's tile for the channels c + l … c + l + channels - 1, from the block's column `column` on,
 * a multiple of 4. */
void mct_depthwise_run_tile(mct_depthwise_block *b, int32_t l, int32_t channels, int32_t column);

/* The sums of channel c + l at the columns from `column` on, groups of four of them, in the strip's row
 * `row`; at up to three columns more than the block has. Uses the tile. */
void mct_depthwise_sums(mct_depthwise_block *b, int32_t l, const mct_dsp_channel *channel,
                        int32_t row, int32_t column, int32_t groups, int32_t *to);

/* The sums of all channels, which begin with 0, at the whole strip: [channels][MCT_POOL_WORDS], of which the first
 * are [rows][columns]. They lie at the end of the pool, see mct_depthwise.tail. Uses the tile. */
const int32_t *mct_depthwise_block_sums(mct_depthwise_block *b);

#endif
