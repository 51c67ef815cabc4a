/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_depthwise_weight.h"

#include "mct_dsp_plane.h"
#include "mct_dsp_taps.h"
#include "mct_fixedpoint.h"
#include "mct_window.h"

/* Taps at a time: a larger window is taken in bands of whole rows. */
#define MCT_MOST_TAPS 28
/* Positions of images where it pays to look for channels without a gradient. */
#define MCT_SILENT_POSITIONS 64
/* What is read behind the last plane. */
#define MCT_SPARE_WORDS 8

/* How dy is cut into blocks of columns and strips of rows. */
typedef struct {
    int32_t columns, rows; /* of dy in a block, 0: there is no cut; and in a strip */
    int32_t pairs;         /* in a row of a plane */
    int32_t over_h;        /* rows that a plane of x has more than one of dy */
    int32_t phases_h, phases_w;
} mct_weight_cut;

typedef struct {
    const mct_depthwise_weights *w;
    mct_window window; /* or a band of it */
    int32_t band;      /* its first row */
    mct_weight_cut cut;
    int32_t channels; /* in hand, 1 to 4 */
    int32_t x_at[4], dy_at[4];
    int32_t row, column, rows, columns; /* of dy: the strip in hand */
    int32_t padded;                     /* the column whose padding the planes have; or -1 */
    /* by rows of the window; of each row first the taps 0, stride_w …, then 1, 1 + stride_w … */
    int32_t sums[4][MCT_MOST_TAPS];
    /* of each channel dy, then the planes of x */
    uint32_t pool[4 * MCT_POOL_WORDS + MCT_SPARE_WORDS];
} mct_weight_planes;

/* Rows and columns of an image, as they lie in a plane. */
typedef struct {
    const int8_t *values;
    const mct_shape *shape;
    const int32_t *at; /* the channels in hand */
    int32_t zero_point;
    int32_t row, column;           /* of the image, at the plane's first ones */
    int32_t row_step, column_step; /* to the next ones */
    int32_t rows, columns;         /* of the plane; behind these columns are zeros */
} mct_weight_view;

/* ---------------------------------------------------------------------------------- how it is cut */

/* Words of so many rows of dy, in whole quads. */
static int32_t mct_weight_dy_words(const mct_weight_cut *cut, int32_t rows) {
    return (rows * cut->pairs + 3) / 4 * 4;
}

/* Words of a channel's planes for so many rows of dy. */
static int32_t mct_weight_words(const mct_weight_cut *cut, int32_t rows) {
    return mct_weight_dy_words(cut, rows) +
           cut->phases_h * cut->phases_w * (rows + cut->over_h) * cut->pairs;
}

/* About what the cut costs, in instructions of a channel. */
static int32_t mct_weight_cost(const mct_shape *dy, const mct_window *win,
                               const mct_weight_cut *cut) {
    const int32_t strips = (dy->h + cut->rows - 1) / cut->rows;
    const int32_t blocks = (dy->w + cut->columns - 1) / cut->columns;
    const int32_t taps = win->kernel_h * win->kernel_w;
    const int32_t strip = 4 * mct_weight_words(cut, cut->rows) + 20 * win->kernel_h +
                          2 * cut->rows * cut->pairs * taps;
    return blocks * (strips * strip + (blocks > 1 ? MCT_POOL_WORDS * 4 : 0));
}

static mct_weight_cut mct_weight_cut_of(const mct_shape *dy, const mct_window *win) {
    mct_weight_cut best = {0}, cut = {0};
    cut.over_h = (win->kernel_h - 1) / win->stride_h;
    cut.phases_h = mct_min(win->stride_h, win->kernel_h);
    cut.phases_w = mct_min(win->stride_w, win->kernel_w);
    for (int32_t blocks = 1; blocks <= dy->w; blocks++) {
        cut.columns = (dy->w + blocks - 1) / blocks;
        cut.pairs = (cut.columns + (win->kernel_w - 1) / win->stride_w + 1) / 2;
        cut.rows = dy->h;
        while (cut.rows > 0 && mct_weight_words(&cut, cut.rows) > MCT_POOL_WORDS) {
            cut.rows--;
        }
        if (cut.rows > 0 &&
            (best.rows == 0 || mct_weight_cost(dy, win, &cut) < mct_weight_cost(dy, win, &best))) {
            best = cut;
        }
        if (cut.rows == dy->h) {
            break;
        }
    }
    return best;
}

/* --------------------------------------------------------------------------------------- planes */

static void mct_weight_clear(uint32_t *to, int32_t words) {
    for (int32_t i = 0; i < words; i++) {
        to[i] = 0;
        mct_keep_loop();
    }
}

/* The first of the view's places, `step` apart from `at` on, that is not before `limit`, or `places`. */
static int32_t mct_weight_first(int32_t at, int32_t step, int32_t limit, int32_t places) {
    return at >= limit ? 0 : mct_min((limit - at + step - 1) / step, places);
}

/* A row's numbers `before` … `before + count - 1` of the channels in hand, one after the other. */
static void mct_weight_few(const mct_weight_planes *p, const mct_weight_view *view,
                           const int8_t *from, int32_t before, int32_t count, uint32_t *to) {
    const int32_t pixel = view->column_step * view->shape->c;
    for (int32_t l = 0; l < p->channels; l++, to += MCT_POOL_WORDS) {
        for (int32_t i = before / 2; i < (before + count + 1) / 2; i++) {
            int32_t pair[2] = {0, 0};
            for (int32_t n = 0; n < 2; n++) {
                const int32_t at = 2 * i + n - before;
                if (at >= 0 && at < count) {
                    pair[n] = from[at * pixel + view->at[l]] - view->zero_point;
                }
            }
            to[i] = mct_pair(pair[0], pair[1]);
        }
    }
}

/* Whether four channels are in hand that lie next to each other. */
static int mct_weight_is_word(const mct_weight_planes *p, const int32_t *at) {
    return p->channels == 4 && at[1] == at[0] + 1 && at[2] == at[0] + 2 && at[3] == at[0] + 3;
}

/* The rows that lie in the image; `before` … of their columns do. */
static void mct_weight_load_rows(const mct_weight_planes *p, const mct_weight_view *view,
                                 const int8_t *from, int32_t rows, int32_t before, int32_t count,
                                 uint32_t *to) {
    const int32_t channels = view->shape->c, pairs = p->cut.pairs;
    const int32_t row_bytes = view->row_step * view->shape->w * channels;
    if (!mct_weight_is_word(p, view->at)) {
        for (; rows > 0; rows--, from += row_bytes, to += pairs) {
            mct_weight_few(p, view, from, before, count, to);
        }
        return;
    }
    const int32_t lead = before % 2, rest = count - lead;
    mct_tile_load tile = {
        .from = from + view->at[0],
        .row_bytes = row_bytes,
        .to = to + before / 2,
        .pitch = 4 * pairs,
        .rows = rows,
        .lead = lead,
        .quads = rest / 4,
        .rest = rest % 4,
        .pixel = view->column_step * channels,
        .plus = mct_pair(-view->zero_point, -view->zero_point),
    };
    mct_tile_load_run(&tile);
}

/* Fills the plane that begins at `to` in each channel's pool, with rows of zeros outside of the image. */
static void mct_weight_load(const mct_weight_planes *p, const mct_weight_view *view, uint32_t *to) {
    const mct_shape *shape = view->shape;
    const int32_t pairs = p->cut.pairs;
    const int32_t above = mct_weight_first(view->row, view->row_step, 0, view->rows);
    const int32_t below = mct_weight_first(view->row, view->row_step, shape->h, view->rows);
    const int32_t before = mct_weight_first(view->column, view->column_step, 0, view->columns);
    const int32_t behind =
        mct_weight_first(view->column, view->column_step, shape->w, view->columns);
    for (int32_t l = 0; l < p->channels && below - above < view->rows; l++) {
        mct_weight_clear(to + l * MCT_POOL_WORDS, above * pairs);
        mct_weight_clear(to + l * MCT_POOL_WORDS + below * pairs, (view->rows - below) * pairs);
    }
    if (below > above && behind > before) {
        const int32_t iy = view->row + above * view->row_step;
        const int32_t ix = view->column + before * view->column_step;
        mct_weight_load_rows(p, view, view->values + (iy * shape->w + ix) * shape->c, below - above,
                             before, behind - before, to + above * pairs);
    }
}

/* The strip in hand of dy; returns its words, in quads. */
static int32_t mct_weight_load_dy(mct_weight_planes *p) {
    const mct_weight_view view = {
        .values = p->w->dy_values,
        .shape = p->w->dy,
        .at = p->dy_at,
        .row = p->row,
        .column = p->column,
        .row_step = 1,
        .column_step = 1,
        .rows = p->rows,
        .columns = p->columns,
    };
    const int32_t words = p->rows * p->cut.pairs, all = mct_weight_dy_words(&p->cut, p->rows);
    mct_weight_load(p, &view, p->pool);
    for (int32_t l = 0; l < p->channels && p->rows < p->cut.rows; l++) {
        mct_weight_clear(p->pool + l * MCT_POOL_WORDS + words, all - words);
    }
    return all / 4;
}

/* The plane of x that begins with a row and a column. */
static void mct_weight_load_x(mct_weight_planes *p, int32_t row, int32_t column, uint32_t *to) {
    const mct_window *win = &p->window;
    const mct_weight_view view = {
        .values = p->w->x_values,
        .shape = p->w->x,
        .at = p->x_at,
        .zero_point = p->w->zero_point,
        .row = p->row * win->stride_h - win->pad_top + row,
        .column = p->column * win->stride_w - win->pad_left + column,
        .row_step = win->stride_h,
        .column_step = win->stride_w,
        .rows = p->rows + p->cut.over_h,
        .columns = mct_min(2 * p->cut.pairs, p->columns + (win->kernel_w - 1) / win->stride_w),
    };
    mct_weight_load(p, &view, to);
}

/* ------------------------------------------------------------------------------------------- sums */

/* How many of `size` taps, every `step`-th from `first` on, there are. */
static int32_t mct_weight_taps(int32_t size, int32_t first, int32_t step) {
    return (size - first + step - 1) / step;
}

/* Where the taps of a row that begin with x lie among its sums. */
static int32_t mct_weight_place(const mct_window *win, int32_t x) {
    int32_t place = 0;
    for (int32_t before = 0; before < x; before++) {
        place += mct_weight_taps(win->kernel_w, before, win->stride_w);
    }
    return place;
}

/* Adds the strip in hand. */
static void mct_weight_add_strip(mct_weight_planes *p) {
    const mct_window *win = &p->window;
    const int32_t quads = mct_weight_load_dy(p), pairs = p->cut.pairs;
    uint32_t *plane = p->pool + mct_weight_dy_words(&p->cut, p->cut.rows);
    for (int32_t phase = 0; phase < p->cut.phases_h * p->cut.phases_w; phase++) {
        const int32_t y = phase / p->cut.phases_w, x = phase % p->cut.phases_w;
        const int32_t taps_w = mct_weight_taps(win->kernel_w, x, win->stride_w);
        const int32_t to = y * win->kernel_w + mct_weight_place(win, x);
        mct_weight_load_x(p, y, x, plane);
        for (int32_t first = 0; first < taps_w; first += MCT_TAPS_WIDTH) {
            mct_tile_taps tile = {
                .dy = p->pool,
                .x = plane + first / 2,
                .quads = quads,
                .sums = p->sums[0] + to + first,
                .pitch = 4 * pairs,
                .to_next = 4 * win->stride_h * win->kernel_w,
                .rows = mct_weight_taps(win->kernel_h, y, win->stride_h),
            };
            for (int32_t l = 0; l < p->channels; l++) {
                mct_tile_taps_run(&tile, mct_min(taps_w - first, MCT_TAPS_WIDTH));
                tile.dy += MCT_POOL_WORDS;
                tile.x += MCT_POOL_WORDS;
                tile.sums += MCT_MOST_TAPS;
            }
        }
        plane += (p->cut.rows + p->cut.over_h) * pairs;
    }
}

/* Hands out a channel's sums: all at once, if they are in order. */
static void mct_weight_hand_out(const mct_weight_planes *p, const int32_t *sums, int32_t j,
                                mct_depthwise_weight_take *take, void *result) {
    const mct_window *win = &p->window;
    const int32_t begin = p->band * win->kernel_w;
    if (win->stride_w == 1) {
        take(result, j, begin, 1, win->kernel_h * win->kernel_w, sums);
        return;
    }
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        for (int32_t x = 0; x < p->cut.phases_w; x++) {
            const int32_t taps = mct_weight_taps(win->kernel_w, x, win->stride_w);
            take(result, j, begin + ky * win->kernel_w + x, win->stride_w, taps, sums);
            sums += taps;
        }
    }
}

/* Whether four channels are in hand that have no gradient; not told of large images, where hardly any has. */
static int mct_weight_is_silent(const mct_weight_planes *p) {
    const int32_t positions = p->w->dy->h * p->w->dy->w;
    const int8_t *dy = p->w->dy_values + p->dy_at[0];
    uint32_t seen = 0;
    if (positions > MCT_SILENT_POSITIONS || !mct_weight_is_word(p, p->dy_at)) {
        return 0;
    }
    for (int32_t n = 0; n < positions && seen == 0; n++, dy += p->w->dy->c) {
        seen |= mct_load32(dy);
    }
    return seen == 0;
}

/* The channels in hand, of which the j-th that is trained is the first. */
static void mct_weight_channels(mct_weight_planes *p, int32_t j, mct_depthwise_weight_take *take,
                                void *result) {
    const mct_shape *dy = p->w->dy;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t l = 0; l < 4; l++) {
        mct_weight_clear((uint32_t *)p->sums[l], taps);
    }
    const int32_t width = mct_weight_is_silent(p) ? 0 : dy->w;
    for (p->column = 0; p->column < width; p->column += p->cut.columns) {
        p->columns = mct_min(dy->w - p->column, p->cut.columns);
        if (p->padded != p->column) {
            mct_weight_clear(p->pool, 4 * MCT_POOL_WORDS);
            p->padded = p->column;
        }
        for (p->row = 0; p->row < dy->h; p->row += p->cut.rows) {
            p->rows = mct_min(dy->h - p->row, p->cut.rows);
            mct_weight_add_strip(p);
        }
    }
    for (int32_t l = 0; l < p->channels; l++) {
        mct_weight_hand_out(p, p->sums[l], j + l, take, result);
    }
}

/* Any window: channel c of dy by channel i of x, at a tap. */
static int32_t mct_weight_any(const mct_depthwise_weights *w, int32_t c, int32_t i, int32_t tap) {
    int32_t sum = 0;
    for (int32_t n = 0; n < w->dy->h * w->dy->w; n++) {
        const int32_t at = mct_window_tap_2d(w->window, w->x, n / w->dy->w, n % w->dy->w, tap);
        if (at >= 0) {
            sum += w->dy_values[n * w->dy->c + c] * (w->x_values[at * w->x->c + i] - w->zero_point);
        }
    }
    return sum;
}

static void mct_weight_run_any(const mct_depthwise_weights *w, mct_depthwise_weight_take *take,
                               void *result) {
    for (int32_t j = 0; j < w->count; j++) {
        const int32_t c = w->channels == NULL ? j : w->channels[j];
        const int32_t i = w->x_columns == NULL ? j : w->x_columns[j];
        for (int32_t tap = 0; tap < w->window->kernel_h * w->window->kernel_w; tap++) {
            const int32_t sum = mct_weight_any(w, c, i, tap);
            take(result, j, tap, 1, 1, &sum);
        }
    }
}

/* The band in hand. */
static void mct_weight_run_band(mct_weight_planes *p, mct_depthwise_weight_take *take,
                                void *result) {
    const mct_depthwise_weights *w = p->w;
    p->padded = -1;
    for (int32_t j = 0; j < w->count; j += 4) {
        p->channels = mct_min(w->count - j, 4);
        for (int32_t l = 0; l < p->channels; l++) {
            p->x_at[l] = w->x_columns == NULL ? j + l : w->x_columns[j + l];
            p->dy_at[l] = w->channels == NULL ? j + l : w->channels[j + l];
        }
        mct_weight_channels(p, j, take, result);
    }
}

/* Rows of the window in a band, all bands about the same; 0: a row has too many taps. */
static int32_t mct_weight_band_rows(const mct_window *win) {
    const int32_t most = MCT_MOST_TAPS / win->kernel_w;
    if (most == 0) {
        return 0;
    }
    const int32_t bands = (win->kernel_h + most - 1) / most;
    return (win->kernel_h + bands - 1) / bands;
}

void mct_depthwise_weight_run(const mct_depthwise_weights *w, mct_depthwise_weight_take *take,
                              void *result) {
    mct_weight_planes p;
    p.w = w;
    p.window = *w->window;
    const int32_t rows = p.window.kernel_h;
    const int32_t band_rows = mct_weight_band_rows(&p.window);
    p.window.kernel_h = band_rows;
    if (band_rows == 0 || p.window.dilation_h > 1 || p.window.dilation_w > 1 ||
        mct_weight_cut_of(w->dy, &p.window).rows == 0) {
        mct_weight_run_any(w, take, result);
        return;
    }
    for (p.band = 0; p.band < rows; p.band += band_rows) {
        p.window.kernel_h = mct_min(rows - p.band, band_rows);
        p.window.pad_top = w->window->pad_top - p.band;
        p.cut = mct_weight_cut_of(w->dy, &p.window);
        mct_weight_run_band(&p, take, result);
    }
}
