/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_depthwise.h"

/* Whether the kernel reaches a row or a column of x from each one of the result. */
static int mct_depthwise_reaches(int32_t results, int32_t kernel, int32_t stride, int32_t pad,
                                 int32_t size) {
    return pad < kernel && (results - 1) * stride - pad < size;
}

static int mct_depthwise_is_narrow(const mct_depthwise_cut *cut) {
    return cut->kind == MCT_PLANE_WIDTH3 || cut->kind == MCT_PLANE_WIDTH3_BY2;
}

static mct_depthwise_cut mct_depthwise_cut_kernel(const mct_depthwise *d) {
    mct_depthwise_cut cut = {.kind = -1, .width = mct_max(d->kernel_w, 2)};
    if (d->stride_w <= 2 && d->kernel_w <= 7) {
        const int32_t small = d->kernel_h <= 3 && d->kernel_w <= 3;
        cut.width = small ? 3 : (d->kernel_w <= 5 ? 5 : 7);
        cut.kind = cut.width - 3 + d->stride_w - 1;
    }
    cut.row_words = cut.kind % 2 == 1 ? (cut.width + 1) / 2 : cut.width - 1;
    cut.filter_words = (mct_depthwise_is_narrow(&cut) ? 3 : d->kernel_h) * cut.row_words;
    cut.zero_row = mct_depthwise_is_narrow(&cut) &&
                   (d->kernel_h < 3 || d->pad_top > 0 ||
                    (d->rows - 1) * d->stride_h - d->pad_top + d->kernel_h > d->from.h);
    return cut;
}

/* For blocks of `columns`: how many rows of the result fit into a strip, and the rest of the cut. */
static void mct_depthwise_cut_rows(const mct_depthwise *d, int32_t columns,
                                   mct_depthwise_cut *cut) {
    const int32_t room = MCT_POOL_WORDS - cut->filter_words;
    cut->columns = columns;
    cut->pairs = ((columns - 1) * d->stride_w + cut->width + 1) / 2;
    cut->rows = mct_min(d->rows, MCT_STRIP_ROWS);
    for (; cut->rows > 0; cut->rows--) {
        const int32_t under = mct_min((cut->rows - 1) * d->stride_h + d->kernel_h, d->from.h);
        cut->slots = under + cut->zero_row;
        if (cut->slots * cut->pairs + cut->rows * columns * d->tail / 4 <= room) {
            return;
        }
    }
}

__attribute__((noinline)) mct_depthwise_cut mct_depthwise_cut_of(const mct_depthwise *d) {
    mct_depthwise_cut cut = mct_depthwise_cut_kernel(d), best = {0};
    int32_t least = INT32_MAX;
    if (d->kernel_h < 1 || d->kernel_w < 1 || cut.filter_words > MCT_POOL_WORDS ||
        !mct_depthwise_reaches(d->rows, d->kernel_h, d->stride_h, d->pad_top, d->from.h) ||
        !mct_depthwise_reaches(d->columns, d->kernel_w, d->stride_w, d->pad_left, d->from.w)) {
        return best;
    }
    for (int32_t blocks = 1;; blocks++) {
        mct_depthwise_cut_rows(d, (d->columns + 4 * blocks - 1) / (4 * blocks) * 4, &cut);
        if (cut.rows > 0) {
            const int32_t strips = (d->rows + cut.rows - 1) / cut.rows;
            const int32_t cost = blocks * (cut.pairs * d->from.h + 16 * strips);
            if (cost < least) {
                least = cost;
                best = cut;
            }
        }
        if (cut.columns == 4 || cut.rows == d->rows) {
            return best;
        }
    }
}

static void mct_depthwise_exchange(int32_t *a, int32_t *b) {
    const int32_t held = *a;
    *a = *b;
    *b = held;
}

void mct_depthwise_turn(mct_depthwise *d) {
    d->turned = !d->turned;
    mct_depthwise_exchange(&d->from.h, &d->from.w);
    mct_depthwise_exchange(&d->rows, &d->columns);
    mct_depthwise_exchange(&d->kernel_h, &d->kernel_w);
    mct_depthwise_exchange(&d->stride_h, &d->stride_w);
    mct_depthwise_exchange(&d->pad_top, &d->pad_left);
    mct_depthwise_exchange(&d->w_row, &d->w_column);
}

int mct_depthwise_choose(mct_depthwise *d) {
    if (d->columns * ((d->rows + 3) / 4) < d->rows * ((d->columns + 3) / 4)) {
        mct_depthwise_turn(d);
        if (mct_depthwise_cut_of(d).columns > 0) {
            return 1;
        }
        mct_depthwise_turn(d);
    }
    return mct_depthwise_cut_of(d).columns > 0;
}

static void mct_depthwise_clear(uint32_t *to, int32_t pairs) {
    for (int32_t t = 0; t < pairs; t++) {
        to[t] = 0;
        mct_keep_loop();
    }
}

/* mct_tile_filter_run for fewer than four channels. */
static void mct_depthwise_few_filters(const mct_depthwise_block *b, const mct_tile_filter *tile) {
    const int32_t step = tile->apart ? 2 : 1;
    for (int32_t l = 0; l < 4; l++) {
        const int8_t *from = tile->from + l;
        for (int32_t i = 0; i < b->cut.row_words; i++) {
            int32_t pair[2] = {0, 0};
            for (int32_t n = 0; n < 2; n++) {
                if (l < b->channels && step * i + n < tile->taps) {
                    pair[n] = b->d.factor * from[(step * i + n) * tile->step];
                }
            }
            tile->to[l * MCT_POOL_WORDS + i] = mct_pair(pair[0], pair[1]);
        }
    }
}

/* The weights, row by row. */
static void mct_depthwise_filters(mct_depthwise_block *b) {
    const mct_depthwise *d = &b->d;
    const int32_t words = b->cut.row_words;
    mct_tile_filter tile = {
        .from = d->w + b->c,
        .step = d->w_column,
        .to = b->pool[0],
        .taps = d->kernel_w,
        .zeros = b->cut.width - d->kernel_w,
        .twice = d->factor == 2 ? UINT32_MAX : 0,
        .apart = b->cut.kind % 2 == 1,
    };
    for (int32_t ky = 0; ky < d->kernel_h; ky++, tile.from += d->w_row, tile.to += words) {
        if (b->channels == 4) {
            mct_tile_filter_run(&tile);
        } else {
            mct_depthwise_few_filters(b, &tile);
        }
    }
    for (int32_t l = 0; l < 4; l++) {
        const int32_t done = d->kernel_h * words;
        mct_depthwise_clear(b->pool[l] + done, b->cut.filter_words - done);
    }
}

static mct_depthwise_span mct_depthwise_columns_read(const mct_depthwise_block *b) {
    const mct_depthwise *d = &b->d;
    const int32_t ix = b->column * d->stride_w - d->pad_left;
    const int32_t first = mct_max(ix, 0);
    const int32_t end = mct_min(ix + 2 * b->cut.pairs, d->from.w);
    return (mct_depthwise_span){first, mct_max(end - first, 0), first - ix};
}

/* Clears the row of zeros, and the padding that the rows of x leave alone. */
static void mct_depthwise_pad(mct_depthwise_block *b) {
    const mct_depthwise_span span = mct_depthwise_columns_read(b);
    const int32_t pairs = b->cut.pairs, zero = b->cut.zero_row;
    const int32_t before = mct_min(span.before / 2, pairs);
    const int32_t after = mct_min((span.before + span.count + 1) / 2, pairs);
    for (int32_t l = 0; l < 4; l++) {
        uint32_t *to = b->pool[l] + b->cut.filter_words;
        if (b->padded < 0) {
            mct_depthwise_clear(to, zero * pairs);
        }
        if (before == 0 && after == pairs) {
            continue;
        }
        to += zero * pairs;
        for (int32_t slot = zero; slot < b->cut.slots; slot++, to += pairs) {
            mct_depthwise_clear(to, before);
            mct_depthwise_clear(to + after, pairs - after);
        }
    }
}

/* mct_tile_load_run for fewer than four channels: a row. */
static void mct_depthwise_few(const mct_depthwise_block *b, const int8_t *from,
                              mct_depthwise_span span, uint32_t *to) {
    const int32_t zero_point = b->d.zero_point, pixel = mct_depthwise_column_bytes(b);
    for (int32_t l = 0; l < b->channels; l++, to += MCT_POOL_WORDS) {
        for (int32_t i = span.before / 2; i < (span.before + span.count + 1) / 2; i++) {
            int32_t pair[2] = {0, 0};
            for (int32_t n = 0; n < 2; n++) {
                const int32_t at = 2 * i + n - span.before;
                if (at >= 0 && at < span.count) {
                    pair[n] = from[at * pixel + l] - zero_point;
                }
            }
            to[i] = mct_pair(pair[0], pair[1]);
        }
    }
}

void mct_depthwise_load_s8(const mct_depthwise_block *b, const int8_t *from,
                           mct_depthwise_span span, int32_t rows, uint32_t *to) {
    const int32_t row_bytes = mct_depthwise_row_bytes(b), pairs = b->cut.pairs;
    if (b->channels < 4 || span.count == 0) {
        for (; rows > 0; rows--, from += row_bytes, to += pairs) {
            mct_depthwise_few(b, from, span, to);
        }
        return;
    }
    const int32_t lead = span.before % 2, count = span.count - lead;
    mct_tile_load tile = {
        .from = from,
        .row_bytes = row_bytes,
        .to = to + span.before / 2,
        .pitch = 4 * pairs,
        .rows = rows,
        .lead = lead,
        .quads = count / 4,
        .rest = count % 4,
        .pixel = mct_depthwise_column_bytes(b),
        .plus = mct_pair(-b->d.zero_point, -b->d.zero_point),
    };
    mct_tile_load_run(&tile);
}

/* Moves the rows of the planes from `first` on to their begin; returns how many these are. */
static int32_t mct_depthwise_keep(mct_depthwise_block *b, int32_t begin, int32_t first) {
    const int32_t kept = mct_max(b->end - first, 0), pairs = b->cut.pairs;
    for (int32_t l = 0; first > b->top && l < 4; l++) {
        uint32_t *to = b->pool[l] + begin;
        const uint32_t *from = to + (first - b->top) * pairs;
        int32_t left = kept * pairs;
        for (; left >= 4; left -= 4, to += 4, from += 4) {
            const uint32_t w0 = from[0], w1 = from[1], w2 = from[2], w3 = from[3];
            to[0] = w0;
            to[1] = w1;
            to[2] = w2;
            to[3] = w3;
        }
        for (int32_t i = 0; i < left; i++) {
            to[i] = from[i];
            mct_keep_loop();
        }
    }
    return kept;
}

/* The rows first … end - 1 of x, of which the planes may have some. */
static void mct_depthwise_fill(mct_depthwise_block *b, int32_t first, int32_t end) {
    const mct_depthwise *d = &b->d;
    const mct_depthwise_span span = mct_depthwise_columns_read(b);
    const int32_t pairs = b->cut.pairs, row_bytes = mct_depthwise_row_bytes(b);
    const int32_t begin = b->cut.filter_words + b->cut.zero_row * pairs;
    const int32_t kept = mct_depthwise_keep(b, begin, first);
    uint32_t *to = b->pool[0] + begin + kept * pairs;
    const int8_t *from =
        b->x + (first + kept) * row_bytes + span.first * mct_depthwise_column_bytes(b);
    if (first + kept < end) {
        d->load(b, from, span, end - first - kept, to);
    }
    b->top = first;
    b->end = mct_max(end, b->end);
}

/* The table of mct_tile_plane for a strip whose first row of x is `first`. */
static void mct_depthwise_list(mct_depthwise_block *b, int32_t first) {
    const mct_depthwise *d = &b->d;
    const int32_t pitch = 4 * b->cut.pairs, row_bytes = 4 * b->cut.row_words;
    uint32_t *to = b->table;
    int32_t iy = b->row * d->stride_h - d->pad_top;
    for (int32_t r = 0; r < b->rows; r++, iy += d->stride_h, to += 3) {
        const int32_t begin = mct_max(-iy, 0), end = mct_min(d->kernel_h, d->from.h - iy);
        if (mct_depthwise_is_narrow(&b->cut)) {
            for (int32_t ky = 0; ky < 3; ky++) {
                const int inside = ky >= begin && ky < end;
                to[ky] = inside ? (uint32_t)((iy + ky - first + b->cut.zero_row) * pitch) : 0;
            }
            continue;
        }
        to[0] = (uint32_t)((iy + begin - first) * pitch);
        to[1] = (uint32_t)(begin * row_bytes);
        to[2] = (uint32_t)(end - begin);
    }
}

void mct_depthwise_run_tile(mct_depthwise_block *b, int32_t l, int32_t channels, int32_t column) {
    b->tile.filters = b->pool[l];
    b->tile.plane = b->pool[l] + b->cut.filter_words + column * b->d.stride_w / 2;
    b->tile.channels = channels;
    mct_tile_plane_run(&b->tile);
}

/* A sum that has no tile. */
static int32_t mct_depthwise_sum_of(const mct_depthwise_block *b, int32_t l, const uint32_t *row,
                                    int32_t column, int32_t start) {
    const int32_t words = b->cut.row_words;
    const uint32_t *w = b->pool[l] + row[1] / 4;
    const uint8_t *from =
        (const uint8_t *)(b->pool[l] + b->cut.filter_words) + row[0] + 2 * column * b->d.stride_w;
    for (uint32_t ky = 0; ky < row[2]; ky++, w += words, from += 4 * b->cut.pairs) {
        for (int32_t kx = 0; kx < words; kx += 2) {
            start = mct_dot(mct_load32(from + 2 * kx), w[kx], start);
        }
        if (words % 2 == 0) {
            int16_t last;
            __builtin_memcpy(&last, from + 2 * words, sizeof last);
            start = mct_mul_low_high(mct_pair(last, 0), w[words - 1], start);
        }
    }
    return start;
}

/* The same where there is no tile. */
static __attribute__((noinline)) void mct_depthwise_any_sums(const mct_depthwise_block *b,
                                                             int32_t l, int32_t column) {
    const mct_tile_plane *t = &b->tile;
    int32_t *to = t->result;
    for (const uint32_t *row = t->row; row < t->end; row += 3, to += t->to_next / 4) {
        for (int32_t i = 0; i < 4 * t->groups; i++) {
            *to++ = mct_depthwise_sum_of(b, l, row, column + i, t->channel->start);
        }
    }
}

/* Sets what is the same for all sums. */
static void mct_depthwise_to_sums(mct_depthwise_block *b, int32_t row, int32_t rows, int32_t groups,
                                  int32_t pitch) {
    mct_tile_plane *t = &b->tile;
    t->stride = 4;
    t->groups = groups;
    t->row = b->table + 3 * row;
    t->end = t->row + 3 * rows;
    t->to_next = 4 * (pitch - 4 * groups);
    t->store = MCT_PLANE_SUMS;
}

void mct_depthwise_sums(mct_depthwise_block *b, int32_t l, const mct_dsp_channel *channel,
                        int32_t row, int32_t column, int32_t groups, int32_t *to) {
    mct_depthwise_to_sums(b, row, 1, groups, 0);
    b->tile.channel = channel;
    b->tile.result = to;
    if (b->cut.kind < 0) {
        mct_depthwise_any_sums(b, l, column);
    } else {
        mct_depthwise_run_tile(b, l, 1, column);
    }
}

const int32_t *mct_depthwise_block_sums(mct_depthwise_block *b) {
    static const mct_dsp_channel nothing[4] = {{0}};
    const int32_t tail = MCT_POOL_WORDS - b->cut.rows * b->cut.columns;
    mct_depthwise_to_sums(b, 0, b->rows, (b->columns + 3) / 4, b->columns);
    b->tile.channel = nothing;
    b->tile.result = b->pool[0] + tail;
    b->tile.to_channel = 4 * MCT_POOL_WORDS;
    if (b->cut.kind >= 0) {
        mct_depthwise_run_tile(b, 0, b->channels, 0);
        return (const int32_t *)b->pool[0] + tail;
    }
    for (int32_t l = 0; l < b->channels; l++) {
        b->tile.result = b->pool[l] + tail;
        mct_depthwise_any_sums(b, l, 0);
    }
    return (const int32_t *)b->pool[0] + tail;
}

/* The block's columns, strip after strip. */
static void mct_depthwise_run_columns(mct_depthwise_block *b, mct_depthwise_take *take,
                                      void *result) {
    const mct_depthwise *d = &b->d;
    if (b->padded != b->column) {
        mct_depthwise_pad(b);
        b->padded = b->column;
    }
    b->top = 0;
    b->end = 0;
    for (b->row = 0; b->row < d->rows; b->row += b->cut.rows) {
        b->rows = mct_min(d->rows - b->row, b->cut.rows);
        const int32_t iy = b->row * d->stride_h - d->pad_top;
        const int32_t first = mct_max(iy, 0);
        const int32_t end = iy + (b->rows - 1) * d->stride_h + d->kernel_h;
        mct_depthwise_fill(b, first, mct_min(end, d->from.h));
        if (b->listed != b->row) {
            mct_depthwise_list(b, first);
            b->listed = b->row;
        }
        b->tile.pitch = 4 * b->cut.pairs;
        b->tile.kind = b->cut.kind;
        take(result, b);
    }
}

/* Sets the channels aside before the block's result overwrites them. One block of columns has loaded
 * each row before it computes that row; the next block would miss its neighbours. */
static void mct_depthwise_set_aside(mct_depthwise_block *b) {
    const mct_depthwise *d = &b->d;
    const int32_t bytes = 4 * d->element_bytes, whole = b->channels * d->element_bytes;
    int8_t *to = d->aside;
    for (int32_t i = 0; i < d->from.h * d->from.w; i++, to += bytes) {
        for (int32_t n = 0; n < bytes; n += 4) {
            const int8_t *from = b->x + i * b->pixel + n;
            const uint32_t word = mct_row_word(from, mct_clamp(whole - n, 0, 4));
            __builtin_memcpy(to + n, &word, 4);
        }
    }
    b->x = d->aside;
    b->pixel = bytes;
}

void mct_depthwise_run(mct_depthwise_block *b, mct_depthwise_begin *begin, mct_depthwise_take *take,
                       void *result) {
    const mct_depthwise *d = &b->d;
    b->cut = mct_depthwise_cut_of(d);
    b->padded = -1;
    b->listed = -1;
    for (b->c = 0; b->c < d->from.c; b->c += 4) {
        b->channels = mct_min(d->from.c - b->c, 4);
        b->x = d->x + b->c * d->element_bytes;
        b->pixel = d->from.c * d->element_bytes;
        if (d->aside != NULL && d->columns > b->cut.columns) {
            mct_depthwise_set_aside(b);
        }
        mct_depthwise_filters(b);
        begin(result, b);
        for (b->column = 0; b->column < d->columns; b->column += b->cut.columns) {
            b->columns = mct_min(d->columns - b->column, b->cut.columns);
            mct_depthwise_run_columns(b, take, result);
        }
    }
}
