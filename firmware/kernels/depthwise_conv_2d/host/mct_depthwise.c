/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise.h"

#include "mct_fixedpoint.h"
#include "mct_simd.h"
#include "mct_threads.h"

/* A line is a row of `from` as vectors of words: an element and those to its right, each a dilation
 * away, so that one dot product does several taps: four bytes, made unsigned, where there are
 * instructions for them, else two int16, less the zero point. Lines are kept while rows use them. */
#define MCT_LINE_VECTORS 2048
#define MCT_WEIGHT_VECTORS 256
#define MCT_LINES 64
#define MCT_COLUMNS 64
#define MCT_COLUMNS_AT_ONCE 4
#define MCT_TAPS (MCT_HAS_DOT4 ? 4 : 2) /* of a word */
#define MCT_TAP_BITS (32 / MCT_TAPS)
#define MCT_OFFSET (MCT_HAS_DOT4 ? 128 : 0) /* which makes elements unsigned */

/* A block of channels and columns. */
typedef struct {
    int32_t c, lanes;
    int32_t column, columns;
    int32_t length;          /* of a line */
    int32_t held[MCT_LINES]; /* the row that each line is of */
    mct_v32 lines[MCT_LINE_VECTORS];
    mct_v32 w[MCT_WEIGHT_VECTORS];
    mct_v32 excess[MCT_LINES]; /* what each row of the window adds to a sum where elements are 0 */
    int32_t sums[(MCT_COLUMNS + MCT_COLUMNS_AT_ONCE) * MCT_LANES];
} mct_lines;

static inline mct_v32 mct_add_taps(mct_v32 sums, mct_v32 elements, mct_v32 w) {
#if MCT_HAS_DOT4
    return mct_v_dot4(sums, elements, w);
#else
    return mct_v_dot(sums, elements, w);
#endif
}

static int32_t mct_words(const mct_depthwise *d) {
    return (d->window.kernel_w + MCT_TAPS - 1) / MCT_TAPS;
}

static int32_t mct_line_length(const mct_depthwise *d, int32_t columns) {
    const int32_t groups = (columns + MCT_COLUMNS_AT_ONCE - 1) / MCT_COLUMNS_AT_ONCE;
    return (groups * MCT_COLUMNS_AT_ONCE - 1) * d->window.stride_w +
           (mct_words(d) - 1) * MCT_TAPS * d->window.dilation_w + 1;
}

int mct_depthwise_fits(const mct_depthwise *d) {
    return d->window.kernel_h <= MCT_LINES &&
           d->window.kernel_h * mct_words(d) <= MCT_WEIGHT_VECTORS &&
           mct_line_length(d, MCT_COLUMNS_AT_ONCE) <= MCT_LINE_VECTORS / d->window.kernel_h;
}

static mct_v32 mct_load_tap(const mct_depthwise *d, const mct_lines *l, int32_t ky, int32_t kx) {
    const mct_window *win = &d->window;
    if (kx >= win->kernel_w) {
        return (mct_v32){0};
    }
    const int32_t tap = ky * win->kernel_w + kx;
    const int32_t at = d->flipped ? win->kernel_h * win->kernel_w - 1 - tap : tap;
    return mct_v_load_s8(d->w + at * d->from.c + l->c, l->lanes);
}

/* All lanes of a word's tap number `tap`. */
static inline mct_v32 mct_in_place(mct_v32 element, int32_t tap) {
    const int32_t above = 32 - MCT_TAP_BITS;
    return (mct_v32)((mct_vu32)element << above >> (above - tap * MCT_TAP_BITS));
}

static void mct_load_weights(const mct_depthwise *d, mct_lines *l) {
    const int32_t words = mct_words(d);
    for (int32_t ky = 0; ky < d->window.kernel_h; ky++) {
        mct_v32 sum = {0};
        for (int32_t word = 0; word < words; word++) {
            mct_v32 taps = {0};
            for (int32_t tap = 0; tap < MCT_TAPS; tap++) {
                const mct_v32 w = mct_load_tap(d, l, ky, MCT_TAPS * word + tap);
                taps |= mct_in_place(w, tap);
                sum += w;
            }
            l->w[ky * words + word] = taps;
        }
        l->excess[ky] = sum * (MCT_HAS_DOT4 ? d->zero_point + MCT_OFFSET : 0);
    }
}

/* What a word has where there is no element. */
static inline mct_v32 mct_no_elements(const mct_depthwise *d) {
    const uint32_t byte = (uint32_t)(d->zero_point + MCT_OFFSET) & 0xFF;
    return mct_v_all(MCT_HAS_DOT4 ? (int32_t)(byte * UINT32_C(0x01010101)) : 0);
}

/* A line whose element x is to be number x * upsample_w - left. A place differs from that of no
 * element by an exclusive or. */
static void mct_load_apart(const mct_depthwise *d, const mct_lines *l, const int8_t *row,
                           int32_t left, mct_v32 *line) {
    const mct_v32 none = mct_no_elements(d);
    for (int32_t i = 0; i < l->length; i++) {
        line[i] = none;
    }
    for (int32_t x = 0; x < d->from.w; x++) {
        const mct_v32 loaded = mct_v_load_s8(row + x * d->from.c, l->lanes);
        const mct_v32 element = MCT_HAS_DOT4 ? loaded ^ d->zero_point : loaded - d->zero_point;
        for (int32_t tap = 0; tap < MCT_TAPS; tap++) {
            const int32_t i = x * d->upsample_w - left - tap * d->window.dilation_w;
            if (i >= 0 && i < l->length) {
                line[i] ^= mct_in_place(element, tap);
            }
        }
    }
}

/* A word that loses its lowest tap and gets an element as its highest one. */
static inline mct_v32 mct_next_word(const mct_depthwise *d, mct_v32 word, const int8_t *from,
                                    int32_t lanes) {
    const mct_v32 element = mct_v_load_s8(from, lanes) - (MCT_HAS_DOT4 ? 0 : d->zero_point);
    const mct_v32 placed = mct_in_place(element ^ MCT_OFFSET, MCT_TAPS - 1);
    return (mct_v32)((mct_vu32)word >> MCT_TAP_BITS) | placed;
}

/* The same as mct_load_apart where the taps of a word are neighbours: no dilation, nothing between
 * elements. Element number i + MCT_TAPS - 1 completes word i. */
__attribute__((always_inline)) static inline void
mct_load_neighbours(const mct_depthwise *d, const mct_lines *l, int32_t lanes, const int8_t *row,
                    int32_t left, mct_v32 *line) {
    const mct_v32 none = mct_no_elements(d), top = mct_in_place(none, MCT_TAPS - 1);
    const int32_t length = l->length, step = d->from.c;
    const int32_t begin = mct_clamp(-left, 0, length + MCT_TAPS - 1);
    const int32_t end = mct_clamp(d->from.w - left, begin, length + MCT_TAPS - 1);
    const int8_t *from = row + (begin < end ? left + begin : 0) * step;
    mct_v32 word = none;
    int32_t i = 0;
    for (; i + MCT_TAPS - 1 < begin; i++) {
        line[i] = none;
    }
    for (int32_t e = begin; e < mct_min(end, i + MCT_TAPS - 1); e++) {
        word = mct_next_word(d, word, from, lanes);
        from += step;
    }
    for (; i + MCT_TAPS - 1 < end; i++) {
        word = mct_next_word(d, word, from, lanes);
        line[i] = word;
        from += step;
    }
    for (int32_t e = end; e < i + MCT_TAPS - 1; e++) {
        word = (mct_v32)((mct_vu32)word >> MCT_TAP_BITS) | top;
    }
    for (; i < length; i++) {
        word = (mct_v32)((mct_vu32)word >> MCT_TAP_BITS) | top;
        line[i] = word;
    }
}

static void mct_load_line(const mct_depthwise *d, const mct_lines *l, int32_t y, mct_v32 *line) {
    const int8_t *row = d->x + y / d->upsample_h * d->from.w * d->from.c + l->c;
    const int32_t left = l->column * d->window.stride_w - d->window.pad_left;
    if (d->window.dilation_w == 1 && d->upsample_w == 1 && l->lanes == MCT_LANES) {
        mct_load_neighbours(d, l, MCT_LANES, row, left, line);
    } else if (d->window.dilation_w == 1 && d->upsample_w == 1) {
        mct_load_neighbours(d, l, l->lanes, row, left, line);
    } else {
        mct_load_apart(d, l, row, left, line);
    }
}

/* The line of row y, in a slot, loaded unless it is held; NULL where a row is all 0. */
static inline const mct_v32 *mct_line(const mct_depthwise *d, mct_lines *l, int32_t y,
                                      int32_t slot) {
    if (y < 0 || y >= d->from.h * d->upsample_h || (d->upsample_h > 1 && y % d->upsample_h != 0)) {
        return NULL;
    }
    mct_v32 *line = l->lines + slot * l->length;
    if (l->held[slot] != y) {
        mct_load_line(d, l, y, line);
        l->held[slot] = y;
    }
    return line;
}

/* x modulo n, not negative. */
static inline int32_t mct_remainder(int32_t x, int32_t n) {
    const int32_t rest = x % n;
    return rest < 0 ? rest + n : rest;
}

/* The sums of a row, and of up to three columns more. */
static void mct_row_sums(const mct_depthwise *d, mct_lines *l, int32_t row, int32_t *sums) {
    const mct_window *win = &d->window;
    const int32_t words = mct_words(d);
    const mct_v32 *lines[MCT_LINES];
    const mct_v32 *ws[MCT_LINES];
    mct_v32 excess = {0};
    int32_t used = 0;
    const int32_t top = row * win->stride_h - win->pad_top;
    int32_t slot = win->dilation_h == 1 ? mct_remainder(top, win->kernel_h) : 0;
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        lines[used] = mct_line(d, l, top + ky * win->dilation_h, slot);
        slot = slot + 1 < win->kernel_h ? slot + 1 : 0; /* a division takes longer */
        ws[used] = l->w + ky * words;
        if (lines[used] != NULL) {
            excess += l->excess[ky];
            used++;
        }
    }
    const int32_t stride = win->stride_w, word_step = MCT_TAPS * win->dilation_w;
    for (int32_t s = 0; s < l->columns; s += MCT_COLUMNS_AT_ONCE) {
        mct_v32 acc[MCT_COLUMNS_AT_ONCE] = {-excess, -excess, -excess, -excess};
        for (int32_t k = 0; k < used; k++) {
            const mct_v32 *from = lines[k] + s * stride;
            for (int32_t word = 0; word < words; word++) {
                const mct_v32 w = mct_v_held(ws[k][word]);
                for (int32_t i = 0; i < MCT_COLUMNS_AT_ONCE; i++) {
                    acc[i] = mct_add_taps(acc[i], from[i * stride], w);
                }
                from += word_step;
            }
        }
        for (int32_t i = 0; i < MCT_COLUMNS_AT_ONCE; i++) {
            mct_v_store(sums + (s + i) * MCT_LANES, acc[i]);
        }
    }
}

static int32_t mct_columns(const mct_depthwise *d) {
    int32_t most = mct_min(d->columns, MCT_COLUMNS);
    while (mct_line_length(d, most) > MCT_LINE_VECTORS / d->window.kernel_h) {
        most -= MCT_COLUMNS_AT_ONCE;
    }
    return most;
}

int mct_depthwise_is_whole(const mct_depthwise *d) {
    return d->window.dilation_h == 1 && mct_columns(d) == d->columns;
}

/* The channels first … end - 1. */
static void mct_depthwise_channels(const mct_depthwise *d, int32_t first, int32_t end) {
    mct_lines l;
    const int32_t most = mct_columns(d);
    for (l.c = first; l.c < end; l.c += MCT_LANES) {
        l.lanes = mct_min(end - l.c, MCT_LANES);
        mct_load_weights(d, &l);
        for (l.column = 0; l.column < d->columns; l.column += most) {
            l.columns = mct_min(d->columns - l.column, most);
            l.length = mct_line_length(d, l.columns);
            memset(l.held, -1, sizeof l.held);
            const int32_t at_once = most < d->columns ? 1 : MCT_COLUMNS / l.columns;
            for (int32_t row = 0; row < d->rows; row += at_once) {
                const int32_t rows = mct_min(d->rows - row, at_once);
                for (int32_t r = 0; r < rows; r++) {
                    mct_row_sums(d, &l, row + r, l.sums + r * l.columns * MCT_LANES);
                }
                const mct_tile tile = {
                    row * d->columns + l.column, rows * l.columns, l.c, l.lanes, MCT_LANES, l.sums};
                d->take(d->result, &tile);
            }
        }
    }
}

static void mct_depthwise_part(const void *depthwise, int32_t part, int32_t parts) {
    const mct_depthwise *d = depthwise;
    const int32_t unit = MCT_LANES < 8 ? 8 : MCT_LANES; /* bits of 8 channels share a byte */
    mct_depthwise_channels(d, mct_part_begin(d->from.c, part, parts, unit),
                           mct_part_begin(d->from.c, part + 1, parts, unit));
}

void mct_depthwise_run(const mct_depthwise *d) {
    const int64_t taps = d->window.kernel_h * d->window.kernel_w;
    const int64_t products = taps * d->rows * d->columns * d->from.c;
    mct_threads_run(mct_depthwise_part, d, d->from.c % 8 == 0 ? mct_threads_for(products) : 1);
}
