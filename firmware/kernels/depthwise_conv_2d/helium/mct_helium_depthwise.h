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
#define MCT_STRIP_VECTORS 4 /* of the largest window */
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
    int32_t vectors;         /* of a window */
    int32_t sum;             /* of the weights */
    int8_t weights[16 * MCT_STRIP_VECTORS];
    int8_t bytes[MCT_STRIP_BYTES];
    int32_t sums[MCT_STRIP_SUMS];
} mct_helium_strip;

/* Takes the sums of channel c at `count` positions, the first of which is number `position`. */
typedef void mct_helium_take(void *result, int32_t c, const mct_helium_strip *strip,
                             int32_t position, int32_t count);

/* The columns of the result that a strip of so many rows has room for: behind it, three more windows
 * are read and not used. */
static inline int32_t mct_strip_columns(const mct_helium_depthwise *d, int32_t height) {
    const int32_t room = MCT_STRIP_BYTES - 16 * MCT_STRIP_VECTORS;
    return mct_min((room / height - d->kernel_w) / d->stride_w - 2, MCT_STRIP_SUMS);
}

static inline int mct_helium_has_strips(const mct_helium_depthwise *d) {
    const int32_t taps = d->kernel_h * d->kernel_w;
    return taps <= 16 * MCT_STRIP_VECTORS && d->kernel_h <= MCT_STRIP_HEIGHT &&
           (d->kernel_h <= 8 || !d->flipped) && mct_strip_columns(d, d->kernel_h) >= 4 &&
           d->from->c * d->kernel_w < 65536 / 8 && d->upsample_w < 256;
}

/* The weights of channel c, in the order of a strip. */
static inline void mct_strip_weights(mct_helium_strip *s, int32_t c) {
    const mct_helium_depthwise *d = s->d;
    const int32_t all = d->from->c, row = d->kernel_w * all, kernel_h = d->kernel_h;
    const uint16x8_t at = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)row);
    const uint16x8_t put =
        d->flipped ? vddupq_n_u16((uint32_t)kernel_h - 1, 1) : vidupq_n_u16(0, 1);
    const int8_t *w = d->w + c + (d->flipped ? (d->kernel_w - 1) * all : 0);
    const int32_t step = d->flipped ? -all : all;
    int8_t *to = s->weights;
    mct_helium_fill(s->weights, 0, 16 * s->vectors);
    for (int32_t kx = 0; kx < d->kernel_w; kx++, w += step, to += s->height) {
        mct_helium_strew(to, put, 8, w, at, 8 * row, kernel_h);
    }
    s->sum = mct_helium_sum(s->weights, 16 * s->vectors);
}

/* The row iy of the image, in x; -1 if there is nothing. */
static inline int32_t mct_strip_source(const mct_helium_depthwise *d, int32_t iy) {
    const int32_t at = iy < 0 || d->upsample_h == 1 ? iy : iy / d->upsample_h;
    return at >= 0 && at < d->from->h && at * d->upsample_h == iy ? at : -1;
}

static inline void mct_strip_clear_row(const mct_helium_strip *s, int8_t *to, int32_t count) {
    for (int32_t i = 0; i < count; i++, to += s->height) {
        *to = (int8_t)s->d->zero_point;
    }
}

/* The rows iy … of the image into the rows slot … until - 1 of the strip. clear: which may hold something
 * else than zero points. */
static inline void mct_strip_load(mct_helium_strip *s, int32_t iy, int32_t slot, int32_t until,
                                  int clear) {
    const mct_helium_depthwise *d = s->d;
    const int32_t up = d->upsample_w, pixel = s->pixel, count = s->end - s->begin;
    const int32_t first = s->column * d->stride_w - d->pad_left;
    const int32_t apart = up * s->height;
    const uint16x8_t lanes = vidupq_n_u16(0, 1);
    const uint16x8_t at = vmulq_n_u16(lanes, (uint16_t)pixel);
    const uint16x8_t put = vmulq_n_u16(lanes, (uint16_t)apart);
    int8_t *to = s->bytes + (s->begin * up - first) * s->height + slot;
    for (; slot < until; slot++, iy++, to++) {
        const int32_t row = mct_strip_source(d, iy);
        if (row >= 0) {
            mct_helium_strew(to, put, 8 * apart, s->x + (row * d->from->w + s->begin) * pixel, at,
                             8 * pixel, count);
        } else if (clear) {
            mct_strip_clear_row(s, to, count);
        }
    }
}

/* The sums of `rows` rows, one behind the other. */
static inline __attribute__((always_inline)) void
mct_strip_sums_of(mct_helium_strip *s, int32_t vectors, int32_t first, int32_t rows) {
    const mct_helium_depthwise *d = s->d;
    const int32_t step = s->height * d->stride_w, columns = s->columns;
    const int8x16_t w0 = vldrbq_s8(s->weights);
    const int8x16_t w1 = vectors > 1 ? vldrbq_s8(s->weights + 16) : w0;
    const int8x16_t w2 = vectors > 2 ? vldrbq_s8(s->weights + 32) : w0;
    const int8x16_t w3 = vectors > 3 ? vldrbq_s8(s->weights + 48) : w0;
    const int8_t *row = s->bytes + first * d->stride_h;
    int32_t *line = s->sums;
    for (; rows > 0; rows--, row += d->stride_h, line += columns) {
        const int8_t *from = row;
        int32_t *sums = line;
        for (int32_t n = (columns + 3) / 4; n > 0; n--, sums += 4) {
            int32_t four[4];
            for (int32_t l = 0; l < 4; l++, from += step) {
                four[l] = vmladavq_s8(vldrbq_s8(from), w0);
                if (vectors > 1) {
                    four[l] = vmladavaq_s8(four[l], vldrbq_s8(from + 16), w1);
                }
                if (vectors > 2) {
                    four[l] = vmladavaq_s8(four[l], vldrbq_s8(from + 32), w2);
                }
                if (vectors > 3) {
                    four[l] = vmladavaq_s8(four[l], vldrbq_s8(from + 48), w3);
                }
            }
            sums[0] = four[0];
            sums[1] = four[1];
            sums[2] = four[2];
            sums[3] = four[3];
        }
    }
}

static inline void mct_strip_sums(mct_helium_strip *s, int32_t first, int32_t rows) {
    if (s->vectors == 1) {
        mct_strip_sums_of(s, 1, first, rows);
    } else if (s->vectors == 2) {
        mct_strip_sums_of(s, 2, first, rows);
    } else if (s->vectors == 3) {
        mct_strip_sums_of(s, 3, first, rows);
    } else {
        mct_strip_sums_of(s, 4, first, rows);
    }
}

/* The rows `row` … of the result, `rows` of which the strip sees now; as many at a time as there is room
 * for their sums. */
static inline __attribute__((always_inline)) void mct_strip_rows(mct_helium_strip *s, int32_t c,
                                                                 int32_t row, int32_t rows,
                                                                 mct_helium_take *take,
                                                                 void *result) {
    const mct_helium_depthwise *d = s->d;
    int32_t most = 1;
    if (s->columns == d->columns) {
        most = mct_max((MCT_STRIP_SUMS - 3) / s->columns, 1);
    }
    for (int32_t n = 0; n < rows; n += most) {
        const int32_t some = mct_min(rows - n, most);
        mct_strip_sums(s, n, some);
        take(result, c, s, (row + n) * d->columns + s->column, some * s->columns);
    }
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

/* A channel at the columns in hand. */
static inline __attribute__((always_inline)) void
mct_strip_channel(mct_helium_strip *s, int32_t c, mct_helium_take *take, void *result) {
    const mct_helium_depthwise *d = s->d;
    const int32_t most = (s->height - d->kernel_h) / d->stride_h + 1;
    const int32_t moved = most * d->stride_h;
    const int32_t kept = mct_max(s->height - moved, 0);
    const int dense = d->upsample_w == 1 && d->upsample_h == 1;
    if (d->rows > most) { /* else the pads are those of the channel before */
        mct_strip_clear(s);
    }
    for (int32_t row = 0; row < d->rows; row += most) {
        int32_t slot = 0;
        if (row > 0 && dense) { /* what was read is not read again: it may be overwritten */
            slot = kept;
            if (kept > 0) {
                mct_helium_copy(s->bytes, s->bytes + moved, s->width * s->height - moved);
            }
            mct_strip_clear_pads(s);
        } else if (row > 0) {
            mct_strip_clear(s);
        }
        mct_strip_load(s, row * d->stride_h - d->pad_top + slot, slot, s->height, row > 0);
        mct_strip_rows(s, c, row, mct_min(d->rows - row, most), take, result);
    }
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
}

/* All channels. */
static inline __attribute__((always_inline)) void
mct_helium_depthwise_run(const mct_helium_depthwise *d, mct_helium_take *take, void *result) {
    mct_helium_strip s;
    s.d = d;
    s.vectors = (d->kernel_h * d->kernel_w + 15) / 16;
    s.height = mct_strip_height(d, s.vectors);
    s.x = d->x;
    s.pixel = d->from->c;
    const int32_t most = mct_strip_columns(d, s.height);
    mct_strip_place(&s, 0, most);
    mct_strip_clear(&s);
    for (int32_t c = 0; c < d->from->c; c++) {
        mct_strip_weights(&s, c);
        if (s.columns == d->columns) {
            s.x = d->x + c;
            mct_strip_channel(&s, c, take, result);
            continue;
        }
        if (d->aside != NULL) {
            const uint16x8_t lanes = vidupq_n_u16(0, 1);
            const int32_t step = d->from->c;
            mct_helium_strew(d->aside, lanes, 8, d->x + c, vmulq_n_u16(lanes, (uint16_t)step),
                             8 * step, d->from->h * d->from->w);
            s.x = d->aside;
            s.pixel = 1;
        } else {
            s.x = d->x + c;
        }
        for (int32_t column = 0; column < d->columns; column += most) {
            mct_strip_place(&s, column, most);
            mct_strip_clear(&s);
            mct_strip_channel(&s, c, take, result);
        }
        mct_strip_place(&s, 0, most);
    }
}

#endif
