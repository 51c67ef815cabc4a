/* SPDX-License-Identifier: Apache-2.0 */
/* What a convolution multiplies its weights with, as panels: a lane is one of four positions. */
#ifndef MCT_DSP_COLUMNS_H
#define MCT_DSP_COLUMNS_H

#include "mct_dsp_tiles.h"
#include "mct_fixedpoint.h"
#include "mct_types.h"
#include "mct_window.h"

/* Terms of a sum that a panel holds, and that are gathered at a time: multiples of 4. */
#define MCT_COLUMN_DEPTH 144
#define MCT_COLUMN_PART 32
/* Terms of one position that take the place of a panel, with a sum for each channel of a block. */
#define MCT_COLUMN_TERMS 480

typedef struct {
    const mct_shape *x, *y;
    const mct_window *window;
    int32_t zero_point;
    const int8_t *from;
    int32_t channels; /* of each pixel, from `from` on: all that x has, or a group */
    int32_t point;    /* 1: position i reads the pixel i of x and nothing else */
} mct_columns;

static inline mct_columns mct_columns_of(const mct_shape *x, const mct_shape *y,
                                         const mct_window *window, int32_t zero_point,
                                         const int8_t *from, int32_t channels) {
    return (mct_columns){
        .x = x,
        .y = y,
        .window = window,
        .zero_point = zero_point,
        .from = from,
        .channels = channels,
        .point = window->kernel_h * window->kernel_w == 1 && window->stride_h == 1 &&
                 window->stride_w == 1 && window->pad_top == 0 && window->pad_left == 0 &&
                 x->h == y->h && x->w == y->w && channels % 4 == 0,
    };
}

static inline void mct_copy_bytes(const int8_t *from, int32_t count, int8_t *to) {
    for (; count >= 4; count -= 4, from += 4, to += 4) {
        __builtin_memcpy(to, from, 4);
    }
    if ((count & 2) != 0) {
        __builtin_memcpy(to, from, 2);
        from += 2;
        to += 2;
    }
    if ((count & 1) != 0) {
        *to = *from;
    }
}

static inline void mct_fill_bytes(int8_t *to, int32_t count, int8_t value) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = value;
        mct_keep_loop();
    }
}

/* The terms k … k + depth - 1 of a position's column, and zero points up to a multiple of 4. */
static inline void mct_column(const mct_columns *c, int32_t row, int32_t column, int32_t k,
                              int32_t depth, int8_t *values) {
    const int32_t channels = c->channels, pixel = c->x->c;
    const mct_window *win = c->window;
    const int32_t iy = row * win->stride_h - win->pad_top;
    const int32_t ix = column * win->stride_w - win->pad_left;
    int32_t i = k, kx = 0, ky = 0;
    if (k != 0) {
        i = k % channels;
        kx = k / channels % win->kernel_w;
        ky = k / channels / win->kernel_w;
    }
    for (int32_t done = 0; done < depth;) {
        const int32_t at_y = iy + ky * win->dilation_h;
        int32_t at_x = ix + kx * win->dilation_w;
        /* neighbouring taps lie next to each other in x, too, unless they are dilated or of a group */
        int32_t taps = win->dilation_w == 1 && channels == pixel ? win->kernel_w - kx : 1;
        const int inside = at_y >= 0 && at_y < c->x->h && at_x >= 0 && at_x < c->x->w;
        taps = !inside ? 1 : mct_min(taps, c->x->w - at_x);
        const int32_t count = mct_min(taps * channels - i, depth - done);
        if (inside) {
            mct_copy_bytes(c->from + (at_y * c->x->w + at_x) * pixel + i, count, values + done);
        } else {
            mct_fill_bytes(values + done, count, (int8_t)c->zero_point);
        }
        done += count;
        i = 0;
        kx += taps;
        if (kx == win->kernel_w) {
            kx = 0;
            ky++;
        }
    }
    for (int32_t j = depth; j % 4 != 0; j++) {
        values[j] = (int8_t)c->zero_point;
    }
}

/* To four parts, and from four windows that are `step` apart. */
static __attribute__((noinline, unused)) void mct_copy_four(const int8_t *from, int32_t step,
                                                            int32_t count, int8_t *to) {
    for (int32_t l = 0; l < 4; l++, from += step, to += MCT_COLUMN_PART) {
        if (count == 9) { /* as of three colours */
            __builtin_memcpy(to, from, 4);
            __builtin_memcpy(to + 4, from + 4, 4);
            to[8] = from[8];
        } else {
            mct_copy_bytes(from, count, to);
        }
    }
}

static __attribute__((noinline, unused)) void mct_fill_four(int8_t *to, int32_t count,
                                                            int8_t value) {
    for (int32_t l = 0; l < 4; l++, to += MCT_COLUMN_PART) {
        mct_fill_bytes(to, count, value);
    }
}

/* The whole columns of four positions next to each other, whose windows lie between the left and the right
 * edge of x; 0: they do not, or are deeper. */
static inline int mct_four_inside(const mct_columns *c, int32_t row, int32_t column, int32_t depth,
                                  int8_t values[4][MCT_COLUMN_PART]) {
    const mct_window *win = c->window;
    const int32_t pixel = c->x->c, row_bytes = win->kernel_w * pixel;
    const int32_t ix = column * win->stride_w - win->pad_left;
    const int32_t end = ix + 3 * win->stride_w + win->kernel_w;
    if (depth != win->kernel_h * row_bytes || depth > MCT_COLUMN_PART || c->channels != pixel ||
        win->dilation_w != 1 || column + 4 > c->y->w || ix < 0 || end > c->x->w) {
        return 0;
    }
    int32_t iy = row * win->stride_h - win->pad_top;
    int8_t *to = values[0];
    for (int32_t ky = 0; ky < win->kernel_h; ky++, iy += win->dilation_h, to += row_bytes) {
        if (iy >= 0 && iy < c->x->h) {
            mct_copy_four(c->from + (iy * c->x->w + ix) * pixel, win->stride_w * pixel, row_bytes,
                          to);
        } else {
            mct_fill_four(to, row_bytes, (int8_t)c->zero_point);
        }
    }
    mct_fill_four(to, -depth & 3, (int8_t)c->zero_point);
    return 1;
}

/* The same where the terms do not lie next to each other. */
static __attribute__((noinline, unused)) void mct_four_gathered(const mct_columns *c,
                                                                int32_t position, int32_t lanes,
                                                                int32_t k, int32_t depth,
                                                                mct_tile_panel *tile) {
    int8_t values[4][MCT_COLUMN_PART];
    const int32_t y_row = position / c->y->w;
    const int32_t y_column = position - y_row * c->y->w;
    if (k == 0 && lanes == 4 && mct_four_inside(c, y_row, y_column, depth, values)) {
        for (int32_t l = 0; l < 4; l++) {
            tile->columns[l] = values[l];
        }
        tile->words = (depth + 3) / 4;
        mct_tile_panel_run(tile);
        return;
    }
    for (int32_t part = 0; part < depth; part += MCT_COLUMN_PART) {
        const int32_t count = mct_min(depth - part, MCT_COLUMN_PART);
        int32_t row = y_row, column = y_column;
        for (int32_t l = 0; l < 4; l++) {
            if (l < lanes) {
                mct_column(c, row, column, k + part, count, values[l]);
                tile->columns[l] = values[l];
            } else {
                tile->columns[l] = values[lanes - 1];
            }
            column++;
            if (column == c->y->w) {
                column = 0;
                row++;
            }
        }
        tile->words = (count + 3) / 4;
        mct_tile_panel_run(tile);
        tile->panel += 8 * tile->words;
    }
}

/* Fills a panel with the terms k … k + depth - 1 of four positions. Lanes beyond `lanes` hold what
 * the last of these holds. */
static __attribute__((noinline, unused)) void mct_columns_load(const mct_columns *c,
                                                               int32_t position, int32_t lanes,
                                                               int32_t k, int32_t depth,
                                                               uint32_t *panel) {
    mct_tile_panel tile; /* set one by one, or gcc clears it first */
    tile.plus = mct_pair(-c->zero_point, -c->zero_point);
    tile.words = depth / 4;
    tile.panel = panel;
    tile.next = 0;
    tile.panels = 1;
    if (!c->point) {
        mct_four_gathered(c, position, lanes, k, depth, &tile);
        return;
    }
    for (int32_t l = 0; l < 4; l++) {
        tile.columns[l] = c->from + (position + mct_min(l, lanes - 1)) * c->x->c + k;
    }
    mct_tile_panel_run(&tile);
}

static inline void mct_column_words(const int8_t *from, int32_t words, uint32_t plus, int32_t twice,
                                    uint32_t *terms) {
    for (; words > 0; words--, from += 4, terms += 2) {
        const uint32_t word = mct_load32(from);
        const uint32_t even = mct_add_even_bytes(plus, word);
        const uint32_t odd = mct_add_odd_bytes(plus, word);
        terms[0] = twice ? mct_add_pairs(even, even) : even;
        terms[1] = twice ? mct_add_pairs(odd, odd) : odd;
    }
}

/* The terms k … k + depth - 1 of one position for mct_dot2. twice: a constant, 1 doubles them. */
static inline void mct_column_load(const mct_columns *c, int32_t position, int32_t k, int32_t depth,
                                   int32_t twice, uint32_t *terms) {
    const uint32_t plus = mct_pair(-c->zero_point, -c->zero_point);
    if (c->point) {
        mct_column_words(c->from + position * c->x->c + k, depth / 4, plus, twice, terms);
        return;
    }
    const int32_t row = position / c->y->w, column = position - row * c->y->w;
    for (int32_t part = 0; part < depth; part += MCT_COLUMN_PART) {
        int8_t values[MCT_COLUMN_PART];
        const int32_t count = mct_min(depth - part, MCT_COLUMN_PART);
        mct_column(c, row, column, k + part, count, values);
        mct_column_words(values, (count + 3) / 4, plus, twice, terms);
        terms += MCT_COLUMN_PART / 2;
    }
}

/* Fills panels, one behind the other, with the whole columns of four positions each. */
static inline void mct_columns_load_panels(const mct_columns *c, int32_t position, int32_t panels,
                                           int32_t depth, uint32_t *panel) {
    if (!c->point) {
        for (; panels > 0; panels--, position += 4, panel += (depth + 3) / 4 * 8) {
            mct_columns_load(c, position, 4, 0, depth, panel);
        }
        return;
    }
    mct_tile_panel tile;
    tile.plus = mct_pair(-c->zero_point, -c->zero_point);
    tile.words = depth / 4;
    tile.panel = panel;
    tile.next = 4 * c->x->c - depth;
    tile.panels = panels;
    for (int32_t l = 0; l < 4; l++) {
        tile.columns[l] = c->from + (position + l) * c->x->c;
    }
    mct_tile_panel_run(&tile);
}

#endif
