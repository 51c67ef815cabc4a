/* Depthwise sums, four channels at a time: each channel's rows lie in a plane of its own, as int16
 * with their padding, so that two taps are one instruction.
 *
 * sums[row][column] = sum over ky, kx of plane[row * stride_h + ky][column * stride_w + kx] * w[ky][kx]
 * where the planes hold x less its zero point, upsample - 1 zeros after each of its rows and columns,
 * and zeros around. flipped: with w[kernel_h - 1 - ky][kernel_w - 1 - kx] in w's place. */
#ifndef MCT_DSP_DEPTHWISE_H
#define MCT_DSP_DEPTHWISE_H

#include "mct_dsp.h"
#include "mct_dsp_panel.h"
#include "mct_dsp_tiles.h"
#include "mct_fixedpoint.h"

#define MCT_PLANE_PAIRS 77  /* two columns of a plane each */
#define MCT_FILTER_PAIRS 28 /* of a channel's weights */
#define MCT_FILTER_ROWS 8   /* the tallest kernel */

typedef struct {
    const mct_shape *from;
    int32_t rows, columns; /* of the result */
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t pad_top, pad_left;
    int32_t upsample_h, upsample_w;
    int32_t flipped;
    int32_t factor; /* of the weights: 1 or 2 */
    int32_t zero_point;
    int32_t most_columns; /* of the result, to take at a time: a multiple of 4 */
    const int8_t *x, *w;
    int8_t *aside; /* room for four channels of x, if the result overwrites it; else NULL */
} mct_depthwise;

typedef struct {
    const mct_depthwise *d;
    const int8_t *x;         /* the channels' first numbers */
    int32_t pixel;           /* from one pixel of x to the next */
    int32_t c, channels;     /* the first channel, and how many, 1 to 4 */
    int32_t column, columns; /* of the result: the first, and how many */
    int32_t pairs;           /* in a row of a plane */
    int32_t filter_pairs;    /* in a row of weights */
    int32_t kind;            /* which of mct_dsp_tiles.h: 4 * filter_pairs - 3 + stride; or 0 */
    uint32_t planes[4][MCT_PLANE_PAIRS]; /* kernel_h rows, reused in turn */
    uint32_t filters[4][MCT_FILTER_PAIRS];
    const uint32_t *rows[4][MCT_FILTER_ROWS]; /* of the planes, from the kernel's first one on */
} mct_depthwise_block;

/* Takes channel c + l of the block at its columns of a row of the result, whose first has the number
 * `position`: calls mct_depthwise_sums or mct_depthwise_bytes. */
typedef void mct_depthwise_take(void *result, const mct_depthwise_block *b, int32_t l,
                                int32_t position);
/* Prepares for the channels of a block. */
typedef void mct_depthwise_begin(void *result, const mct_depthwise_block *b);

/* How many columns of the result fit into a block, in a multiple of 4; 0: not even 4. */
static inline int32_t mct_depthwise_columns(const mct_depthwise *d) {
    const int32_t filter = d->kernel_h * ((d->kernel_w + 2) / 2);
    const int32_t row = MCT_PLANE_PAIRS / d->kernel_h * 2 + 1; /* as (pairs) / 2 below rounds */
    const int32_t most = (row - d->kernel_w - 2) / d->stride_w + 1;
    if (filter > MCT_FILTER_PAIRS || d->kernel_h > MCT_FILTER_ROWS || most < 4) {
        return 0;
    }
    return mct_min(most / 4 * 4, d->most_columns);
}

static inline int32_t mct_depthwise_is_point3(const mct_depthwise *d) {
    return d->kernel_h == 3 && d->kernel_w == 3 && d->stride_w <= 2;
}

/* Two columns, as pairs of their channels 0 and 2, 1 and 3, into four rows of pairs. */
static inline void mct_depthwise_weave(uint32_t even_a, uint32_t odd_a, uint32_t even_b,
                                       uint32_t odd_b, int32_t stride, uint32_t *to) {
    to[0] = mct_lows(even_a, even_b);
    to[stride] = mct_lows(odd_a, odd_b);
    to[2 * stride] = mct_highs(even_a, even_b);
    to[3 * stride] = mct_highs(odd_a, odd_b);
}

/* The same of four channels each, plus `plus` in both halves. */
static inline void mct_depthwise_spread(uint32_t first, uint32_t second, uint32_t plus,
                                        int32_t stride, uint32_t *to) {
    mct_depthwise_weave(mct_add_even_bytes(plus, first), mct_add_odd_bytes(plus, first),
                        mct_add_even_bytes(plus, second), mct_add_odd_bytes(plus, second), stride,
                        to);
}

/* Two weights of each of four channels, times 1 or 2. */
static inline void mct_depthwise_tap(uint32_t first, uint32_t second, int32_t factor,
                                     uint32_t *to) {
    uint32_t even_a = mct_add_even_bytes(0, first);
    uint32_t odd_a = mct_add_odd_bytes(0, first);
    uint32_t even_b = mct_add_even_bytes(0, second);
    uint32_t odd_b = mct_add_odd_bytes(0, second);
    if (factor == 2) {
        even_a = mct_add_even_bytes(even_a, first);
        odd_a = mct_add_odd_bytes(odd_a, first);
        even_b = mct_add_even_bytes(even_b, second);
        odd_b = mct_add_odd_bytes(odd_b, second);
    }
    mct_depthwise_weave(even_a, odd_a, even_b, odd_b, MCT_FILTER_PAIRS, to);
}

/* The weights as pairs. Of three in a row: (0, 1), (1, 2); else (0, 1), (2, 3) … (last, 0). */
static inline void mct_depthwise_filters(mct_depthwise_block *b) {
    const mct_depthwise *d = b->d;
    const int32_t all = d->from->c;
    const int32_t next = mct_depthwise_is_point3(d) ? 1 : 2;
    const int32_t step = d->flipped ? -all : all;
    const int32_t whole = next == 1 ? b->filter_pairs : d->kernel_w / 2;
    const int8_t *row = d->w + b->c + (d->flipped ? (d->kernel_h * d->kernel_w - 1) * all : 0);
    uint32_t *to = b->filters[0];
    for (int32_t ky = 0; ky < d->kernel_h; ky++, row += d->kernel_w * step) {
        const int8_t *w = row;
        for (int32_t t = 0; t < whole; t++, w += next * step) {
            mct_depthwise_tap(mct_row_word(w, b->channels), mct_row_word(w + step, b->channels),
                              d->factor, to++);
        }
        if (whole < b->filter_pairs) {
            mct_depthwise_tap(mct_row_word(w, b->channels), 0, d->factor, to++);
        }
    }
}

/* The four channels of column i of a row of x, or zero points outside. */
static inline uint32_t mct_depthwise_pixel(const mct_depthwise_block *b, const int8_t *row,
                                           int32_t i) {
    const mct_depthwise *d = b->d;
    const int32_t at = d->upsample_w == 1 ? i : i / d->upsample_w;
    if (i < 0 || at >= d->from->w || at * d->upsample_w != i) {
        return (uint32_t)(uint8_t)d->zero_point * 0x01010101u;
    }
    return mct_row_word(row + at * b->pixel, b->channels);
}

/* Pairs of padding. */
static inline void mct_depthwise_nothing(uint32_t *to, int32_t pairs) {
    for (int32_t t = 0; t < pairs; t++) {
        to[t] = 0;
        to[t + MCT_PLANE_PAIRS] = 0;
        to[t + 2 * MCT_PLANE_PAIRS] = 0;
        to[t + 3 * MCT_PLANE_PAIRS] = 0;
        mct_keep_loop();
    }
}

/* A row of whole words from its column ix on, which is -1 or more, and behind it nothing. */
static inline void mct_depthwise_words(const mct_depthwise_block *b, const int8_t *row, int32_t ix,
                                       uint32_t *to, int32_t pairs) {
    const mct_depthwise *d = b->d;
    const uint32_t minus = mct_pair(-d->zero_point, -d->zero_point);
    const uint32_t outside = (uint32_t)(uint8_t)d->zero_point * 0x01010101u;
    const int32_t pixel = b->pixel;
    const int8_t *from = row + ix * pixel;
    int32_t t = 0;
    if (ix < 0) {
        mct_depthwise_spread(outside, mct_load32(row), minus, MCT_PLANE_PAIRS, to++);
        from += 2 * pixel;
        ix += 2;
        t++;
    }
    const int32_t left = d->from->w - ix; /* or less than none */
    const int32_t end = mct_min(t + left / 2, pairs);
    for (; t < end; t++) {
        mct_depthwise_spread(mct_load32(from), mct_load32(from + pixel), minus, MCT_PLANE_PAIRS,
                             to++);
        from += 2 * pixel;
    }
    if (t < pairs && left % 2 == 1) {
        mct_depthwise_spread(mct_load32(from), outside, minus, MCT_PLANE_PAIRS, to++);
        t++;
    }
    mct_depthwise_nothing(to, pairs - t);
}

/* The row iy of the upsampled image into a row of the planes. */
static inline void mct_depthwise_load(mct_depthwise_block *b, int32_t iy, int32_t slot) {
    const mct_depthwise *d = b->d;
    uint32_t *to = b->planes[0] + slot * b->pairs;
    const int32_t at = iy < 0 ? -1 : iy / d->upsample_h;
    if (at < 0 || at >= d->from->h || at * d->upsample_h != iy) {
        mct_depthwise_nothing(to, b->pairs);
        return;
    }
    const int8_t *row = b->x + at * d->from->w * b->pixel;
    int32_t ix = b->column * d->stride_w - d->pad_left;
    const int32_t before = ix < -1 ? mct_min(-ix / 2, b->pairs) : 0;
    mct_depthwise_nothing(to, before);
    to += before;
    ix += 2 * before;
    const int32_t pairs = b->pairs - before;
    if (d->upsample_w == 1 && b->channels == 4 && pairs > 0) {
        mct_depthwise_words(b, row, ix, to, pairs);
        return;
    }
    const uint32_t minus = mct_pair(-d->zero_point, -d->zero_point);
    for (int32_t t = 0; t < pairs; t++, ix += 2) {
        mct_depthwise_spread(mct_depthwise_pixel(b, row, ix), mct_depthwise_pixel(b, row, ix + 1),
                             minus, MCT_PLANE_PAIRS, to++);
    }
}

/* Four columns of the result for any kernel. */
static inline mct_sums4 mct_depthwise_group(const mct_depthwise_block *b, int32_t l, int32_t column,
                                            int32_t start) {
    const int32_t stride = b->d->stride_w;
    const uint32_t *w = b->filters[l];
    mct_sums4 s = {{start, start, start, start}};
    for (int32_t ky = 0; ky < b->d->kernel_h; ky++) {
        const uint8_t *x = (const uint8_t *)b->rows[l][ky] + 2 * column * stride;
        for (int32_t t = 0; t < b->filter_pairs; t++, x += 4, w++) {
            s.lane[0] = mct_dot(mct_load32(x), *w, s.lane[0]);
            s.lane[1] = mct_dot(mct_load32(x + 2 * stride), *w, s.lane[1]);
            s.lane[2] = mct_dot(mct_load32(x + 4 * stride), *w, s.lane[2]);
            s.lane[3] = mct_dot(mct_load32(x + 6 * stride), *w, s.lane[3]);
        }
    }
    return s;
}

/* All but the channel, the stride and where results go. */
static inline void mct_depthwise_tile(const mct_depthwise_block *b, int32_t l, int32_t groups,
                                      mct_tile_columns *t) {
    t->groups = groups;
    t->rows = b->rows[l];
    t->filters = b->filters[l];
    t->kernel_h = b->d->kernel_h;
}

/* The sums of channel c + l at all columns of the block, and at up to three more. */
static inline void mct_depthwise_sums(const mct_depthwise_block *b, int32_t l, int32_t start,
                                      int32_t *sums) {
    mct_tile_columns t;
    mct_depthwise_tile(b, l, (b->columns + 3) / 4, &t);
    t.channel.start = start;
    t.sums = sums;
    switch (b->kind) {
    case 6:
        mct_tile_columns3_sums(&t);
        break;
    case 7:
        mct_tile_columns3_by2_sums(&t);
        break;
    case 10:
        mct_tile_columns5_sums(&t);
        break;
    case 11:
        mct_tile_columns5_by2_sums(&t);
        break;
    case 14:
        mct_tile_columns7_sums(&t);
        break;
    case 15:
        mct_tile_columns7_by2_sums(&t);
        break;
    default:
        for (int32_t i = 0; i < b->columns; i += 4) {
            const mct_sums4 s = mct_depthwise_group(b, l, i, start);
            memcpy(sums + i, s.lane, sizeof s.lane);
        }
    }
}

/* The same by mct_dsp_store_plain to y, y + stride …; returns how many columns it did, which are all
 * in groups of four, or none. */
static inline int32_t mct_depthwise_bytes(const mct_depthwise_block *b, int32_t l,
                                          const mct_dsp_channel *channel, int32_t stride,
                                          int8_t *y) {
    mct_tile_columns t;
    mct_depthwise_tile(b, l, b->columns / 4, &t);
    t.channel = *channel;
    t.stride = stride;
    t.y = y;
    switch (t.groups > 0 ? b->kind : 0) {
    case 6:
        mct_tile_columns3_run(&t);
        break;
    case 7:
        mct_tile_columns3_by2_run(&t);
        break;
    case 10:
        mct_tile_columns5_run(&t);
        break;
    case 11:
        mct_tile_columns5_by2_run(&t);
        break;
    case 14:
        mct_tile_columns7_run(&t);
        break;
    case 15:
        mct_tile_columns7_by2_run(&t);
        break;
    default:
        return 0;
    }
    return 4 * t.groups;
}

/* The rows of the planes under the kernel, the first of which is in `slot`. */
static inline void mct_depthwise_point(mct_depthwise_block *b, int32_t slot) {
    for (int32_t ky = 0; ky < b->d->kernel_h; ky++) {
        for (int32_t l = 0; l < 4; l++) {
            b->rows[l][ky] = b->planes[l] + slot * b->pairs;
        }
        slot = slot + 1 == b->d->kernel_h ? 0 : slot + 1;
    }
}

static inline void mct_depthwise_run_block(mct_depthwise_block *b, mct_depthwise_take *take,
                                           void *result) {
    const mct_depthwise *d = b->d;
    int32_t loaded = 0; /* rows of the padded image */
    for (int32_t row = 0; row < d->rows; row++) {
        const int32_t first = row * d->stride_h;
        loaded = mct_max(loaded, first);
        for (; loaded < first + d->kernel_h; loaded++) {
            mct_depthwise_load(b, loaded - d->pad_top, loaded % d->kernel_h);
        }
        mct_depthwise_point(b, first % d->kernel_h);
        for (int32_t l = 0; l < b->channels; l++) {
            take(result, b, l, row * d->columns + b->column);
        }
    }
}

/* Sets the channels aside before the block's result overwrites them. One block of columns has loaded
 * each row before it computes that row; the next block would miss its neighbours. */
static inline void mct_depthwise_set_aside(mct_depthwise_block *b) {
    const mct_depthwise *d = b->d;
    int8_t *to = d->aside;
    for (int32_t i = 0; i < d->from->h * d->from->w; i++, to += 4) {
        const uint32_t word = mct_row_word(b->x + i * b->pixel, b->channels);
        __builtin_memcpy(to, &word, 4);
    }
    b->x = d->aside;
    b->pixel = 4;
}

/* Only if mct_depthwise_columns(d) is not 0. */
static inline void mct_depthwise_run(const mct_depthwise *d, mct_depthwise_begin *begin,
                                     mct_depthwise_take *take, void *result) {
    mct_depthwise_block b;
    const int32_t most = mct_depthwise_columns(d);
    b.d = d;
    b.filter_pairs = mct_depthwise_is_point3(d) ? 2 : (d->kernel_w + 1) / 2;
    b.kind = 0;
    if (mct_depthwise_is_point3(d) ||
        ((b.filter_pairs == 3 || b.filter_pairs == 4) && d->stride_w <= 2)) {
        b.kind = 4 * b.filter_pairs - 2 + d->stride_w - 1;
    }
    for (b.c = 0; b.c < d->from->c; b.c += 4) {
        b.channels = mct_min(d->from->c - b.c, 4);
        b.x = d->x + b.c;
        b.pixel = d->from->c;
        if (d->aside != NULL && d->columns > most) {
            mct_depthwise_set_aside(&b);
        }
        mct_depthwise_filters(&b);
        begin(result, &b);
        for (b.column = 0; b.column < d->columns; b.column += most) {
            b.columns = mct_min(d->columns - b.column, most);
            b.pairs = (((b.columns + 3) / 4 * 4 - 1) * d->stride_w + d->kernel_w + 2) / 2;
            mct_depthwise_run_block(&b, take, result);
        }
    }
}

#endif
