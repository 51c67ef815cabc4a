/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise sums, channel by channel, from a strip: the rows that a window sees, column by column.
 *
 * sums[row][column] = sum over ky, kx of image[row * stride_h + ky][column * stride_w + kx] * w[ky][kx]
 * where image holds x, upsample - 1 zero points after each of its rows and columns, and zero points
 * around. flipped: with w[kernel_h - 1 - ky][kernel_w - 1 - kx] in w's place.
 *
 * A strip has `height` rows at byte [column * height + row], so that a window is one run of bytes: a
 * vector or a few. Weights lie alike, zeros between them. */
#ifndef MCT_HELIUM_DEPTHWISE_H
#define MCT_HELIUM_DEPTHWISE_H

#include "mct_fixedpoint.h"
#include "mct_helium.h"
#include "mct_types.h"

#define MCT_STRIP_BYTES 704
#define MCT_STRIP_TAPS 64   /* of the largest window: a multiple of 16 */
#define MCT_STRIP_SUMS 128  /* at a time, a multiple of 4 */
#define MCT_STRIP_HEIGHT 16 /* the most rows, also of a kernel */

typedef struct {
    const mct_shape *from;
    int32_t rows, columns; /* of the result */
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left;
    int32_t upsample_h, upsample_w;
    int32_t flipped;
    int32_t zero_point;
    const int8_t *x, *w;
    int8_t *aside; /* room for a channel of x, if the result overwrites it; else NULL */
} mct_helium_depthwise;

typedef struct {
    const mct_helium_depthwise *d;
    const int8_t *x;         /* the channel's first number */
    int32_t pixel;           /* from one pixel of x to the next */
    int32_t column, columns; /* of the result: the first, and how many */
    int32_t width, height;   /* of the strip */
    int32_t begin, end;      /* columns of x that it holds */
    int32_t taps, vectors;   /* of a window */
    int32_t step;            /* from a window to the next */
    int32_t sum;             /* of the weights */
    uint16_t tap_at[MCT_STRIP_TAPS], tap_put[MCT_STRIP_TAPS]; /* where a weight is, and goes */
    int8_t weights[MCT_STRIP_TAPS];
    int8_t bytes[MCT_STRIP_BYTES];
    int32_t sums[MCT_STRIP_SUMS];
} mct_helium_strip;

/* Takes channel c, whose rows `row` … row + rows - 1 of the result the strip sees from its first row on. */
typedef void mct_helium_take(void *result, int32_t c, mct_helium_strip *s, int32_t row,
                             int32_t rows);

/* The columns of the result that a strip of so many rows has room for: behind it, three more windows
 * are read and not used. */
static inline int32_t mct_strip_columns(const mct_helium_depthwise *d, int32_t height) {
    const int32_t room = MCT_STRIP_BYTES - MCT_STRIP_TAPS;
    return mct_min((room / height - d->kernel_w) / d->stride_w - 2, MCT_STRIP_SUMS);
}

static inline int mct_helium_has_strips(const mct_helium_depthwise *d) {
    const int32_t taps = d->kernel_h * d->kernel_w;
    return taps <= MCT_STRIP_TAPS && d->kernel_h <= MCT_STRIP_HEIGHT &&
           mct_strip_columns(d, d->kernel_h) >= 4 && d->from->c < 65536 / MCT_STRIP_TAPS &&
           d->upsample_w < 256;
}

/* How many rows a strip has: as many as its vectors and its room allow. */
static inline int32_t mct_strip_height(const mct_helium_depthwise *d, int32_t vectors) {
    const int32_t wanted = (d->rows - 1) * d->stride_h + d->kernel_h;
    int32_t height = mct_min(wanted, MCT_STRIP_HEIGHT);
    while (height > d->kernel_h && ((d->kernel_w - 1) * height + d->kernel_h > 16 * vectors ||
                                    mct_strip_columns(d, height) < d->columns)) {
        height--;
    }
    return height;
}

/* Where the weights of the first channel are, and where they go in the order of a strip. */
static inline void mct_strip_taps(mct_helium_strip *s) {
    const mct_helium_depthwise *d = s->d;
    const int32_t last = s->taps - 1;
    int32_t tap = 0;
    for (int32_t ky = 0; ky < d->kernel_h; ky++) {
        for (int32_t kx = 0; kx < d->kernel_w; kx++, tap++) {
            s->tap_at[tap] = (uint16_t)((d->flipped ? last - tap : tap) * d->from->c);
            s->tap_put[tap] = (uint16_t)(kx * s->height + ky);
        }
    }
    mct_helium_fill(s->weights, 0, MCT_STRIP_TAPS);
}

/* The rows from iy on of the image into the rows slot … height - 1 of the strip, as far as there are any.
 */
static inline void mct_strip_load(mct_helium_strip *s, int32_t iy, int32_t slot) {
    const mct_helium_depthwise *d = s->d;
    const int32_t up_h = d->upsample_h, up_w = d->upsample_w, pixel = s->pixel;
    const int32_t until = iy + s->height - slot;
    int32_t begin = mct_max(iy, 0), end = mct_max(until, 0);
    if (up_h > 1) {
        begin = (begin + up_h - 1) / up_h;
        end = (end + up_h - 1) / up_h;
    }
    const int32_t rows = mct_min(end, d->from->h) - begin;
    if (rows <= 0 || s->end <= s->begin) {
        return;
    }
    const int32_t first = s->column * d->stride_w - d->pad_left;
    const mct_helium_block block = {
        .to = s->bytes + (s->begin * up_w - first) * s->height + begin * up_h - iy + slot,
        .to_column = up_w * s->height,
        .to_row = up_h,
        .from = s->x + (begin * d->from->w + s->begin) * pixel,
        .from_column = pixel,
        .from_row = d->from->w * pixel,
        .rows = rows,
        .columns = s->end - s->begin,
    };
    mct_helium_strew(&block);
}

/* The weights, as mct_helium_windows takes them. */
static inline __attribute__((always_inline)) void mct_strip_vectors(const mct_helium_strip *s,
                                                                    int32_t vectors, int8x16_t *w) {
    for (int32_t i = 0; i < 4; i++) {
        w[i] = vldrbq_s8(s->weights + 16 * mct_min(i, vectors - 1));
    }
}

/* The sums of `rows` rows, one behind the other. */
static inline __attribute__((always_inline)) void
mct_strip_sums_of(mct_helium_strip *s, int32_t vectors, int32_t first, int32_t rows) {
    const int32_t step = s->step, columns = s->columns, stride_h = s->d->stride_h;
    int8x16_t w[4];
    mct_strip_vectors(s, vectors, w);
    const int8_t *row = s->bytes + first * stride_h;
    int32_t *line = s->sums;
    for (; rows > 0; rows--, row += stride_h, line += columns) {
        const int8_t *from = row;
        int32_t *sums = line;
        for (int32_t n = columns; n > 0; n -= 4, sums += 4) {
            vstrwq_s32(sums, mct_helium_windows(&from, step, w, vectors));
        }
    }
}

static inline void mct_strip_sums(mct_helium_strip *s, int32_t first, int32_t rows) {
    if (s->vectors == 1) {
        mct_strip_sums_of(s, 1, first, rows);
    } else if (s->vectors == 2) {
        mct_strip_sums_of(s, 2, first, rows);
    } else {
        mct_strip_sums_of(s, 4, first, rows);
    }
}

/* How many rows' sums there is room for at a time, if they are to lie as their positions do. */
static inline int32_t mct_strip_most_rows(const mct_helium_strip *s) {
    return s->columns < s->d->columns ? 1 : mct_max((MCT_STRIP_SUMS - 3) / s->columns, 1);
}

/* Zero points to all of the strip, or to what of it never holds anything of x. */
static inline void mct_strip_clear(mct_helium_strip *s) {
    mct_helium_fill(s->bytes, (int8_t)s->d->zero_point, MCT_STRIP_BYTES);
}
static inline void mct_strip_clear_pads(mct_helium_strip *s) {
    const mct_helium_depthwise *d = s->d;
    const int32_t first = s->column * d->stride_w - d->pad_left;
    const int32_t left = (s->begin - first) * s->height;
    const int32_t right = (s->end - first) * s->height;
    mct_helium_fill(s->bytes, (int8_t)d->zero_point, left);
    mct_helium_fill(s->bytes + right, (int8_t)d->zero_point, s->width * s->height - right);
}

/* The rows slot … of the strip. */
static inline void mct_strip_clear_rows(mct_helium_strip *s, int32_t slot) {
    const int8_t zero_point = (int8_t)s->d->zero_point;
    const mct_helium_block block = {
        .to = s->bytes + slot,
        .to_column = s->height,
        .to_row = 1,
        .from = &zero_point,
        .rows = s->height - slot,
        .columns = s->width,
    };
    mct_helium_strew(&block);
}

/* The next rows of a channel: `moved` further, `kept` of which are there. What was read is not read again:
 * it may be overwritten. */
static inline void mct_strip_move(mct_helium_strip *s, int32_t iy, int32_t moved, int32_t kept) {
    const mct_helium_depthwise *d = s->d;
    if (d->upsample_h > 1 || d->upsample_w > 1) { /* whose result never overwrites it */
        mct_strip_clear(s);
        mct_strip_load(s, iy, 0);
        return;
    }
    if (kept > 0) {
        mct_helium_copy(s->bytes, s->bytes + moved, s->width * s->height - moved);
    }
    if (iy + kept < 0) {
        mct_strip_clear_rows(s, kept);
    } else if (iy + s->height > d->from->h) {
        mct_strip_clear_rows(s, mct_max(d->from->h - iy, kept));
    }
    mct_strip_clear_pads(s);
    mct_strip_load(s, iy + kept, kept);
}

/* A channel at the columns in hand. */
static inline __attribute__((always_inline)) void
mct_strip_channel(mct_helium_strip *s, int32_t c, mct_helium_take *take, void *result) {
    const mct_helium_depthwise *d = s->d;
    mct_helium_strew_by(s->weights, s->tap_put, d->w + c, s->tap_at, s->taps);
    s->sum = mct_helium_sum(s->weights, 16 * s->vectors);
    const int32_t most = (s->height - d->kernel_h) / d->stride_h + 1;
    if (d->rows <= most) { /* the pads are those of the channel before */
        mct_strip_load(s, -d->pad_top, 0);
        take(result, c, s, 0, d->rows);
        return;
    }
    const int32_t moved = most * d->stride_h, kept = mct_max(s->height - moved, 0);
    mct_strip_clear(s);
    mct_strip_load(s, -d->pad_top, 0);
    take(result, c, s, 0, most);
    for (int32_t row = most; row < d->rows; row += most) {
        mct_strip_move(s, row * d->stride_h - d->pad_top, moved, kept);
        take(result, c, s, row, mct_min(d->rows - row, most));
    }
}

/* Columns of the result from `column` on. */
static inline void mct_strip_place(mct_helium_strip *s, int32_t column, int32_t most) {
    const mct_helium_depthwise *d = s->d;
    const int32_t up = d->upsample_w;
    const int32_t first = column * d->stride_w - d->pad_left;
    s->column = column;
    s->columns = mct_min(d->columns - column, most);
    s->width = (s->columns - 1) * d->stride_w + d->kernel_w;
    s->begin = first > 0 ? mct_min((first + up - 1) / up, d->from->w) : 0;
    s->end = mct_min(mct_max((first + s->width + up - 1) / up, s->begin), d->from->w);
    mct_strip_clear(s);
}

static inline void mct_strip_set_aside(mct_helium_strip *s, int32_t c) {
    const mct_helium_depthwise *d = s->d;
    const mct_helium_block block = {
        .to = d->aside,
        .to_column = 1,
        .from = d->x + c,
        .from_column = d->from->c,
        .rows = 1,
        .columns = d->from->h * d->from->w,
    };
    mct_helium_strew(&block);
    s->x = d->aside;
    s->pixel = 1;
}

/* All channels. */
static inline __attribute__((always_inline)) void
mct_helium_depthwise_run(const mct_helium_depthwise *d, mct_helium_take *take, void *result) {
    mct_helium_strip s;
    s.d = d;
    s.taps = d->kernel_h * d->kernel_w;
    s.vectors = s.taps > 32 ? 4 : (s.taps + 15) / 16;
    s.height = mct_strip_height(d, s.vectors);
    s.step = s.height * d->stride_w;
    s.x = d->x;
    s.pixel = d->from->c;
    mct_strip_taps(&s);
    const int32_t most = mct_strip_columns(d, s.height);
    mct_strip_place(&s, 0, most);
    for (int32_t c = 0; c < d->from->c; c++) {
        s.x = d->x + c;
        if (most < d->columns && d->aside != NULL) {
            mct_strip_set_aside(&s, c);
        }
        for (int32_t column = 0; column < d->columns; column += most) {
            if (most < d->columns) {
                mct_strip_place(&s, column, most);
            }
            mct_strip_channel(&s, c, take, result);
        }
    }
}

#endif
