/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_tiled_plane.h"

#include <string.h>

#include "mct_fixedpoint.h"
#include "mct_tiled.h"

#define MCT_FOUR 4

/* ------------------------------------------------------------------------------------- rows */

/* The image's row that is the first at or below row y of the windows. */
static int32_t mct_plane_source(const mct_tiled_plane *plane, int32_t y) {
    const int32_t spread = plane->spread_h;
    if (spread == 1) { /* a Cortex-M0+ does not divide */
        return y;
    }
    return y <= 0 ? y / spread : (y + spread - 1) / spread;
}

/* Where the window of an output row begins. */
static int32_t mct_plane_top(const mct_tiled_plane *plane, int32_t row) {
    return row * plane->stride_h - plane->pad_top;
}

/* Rows of the image that the windows of so many output rows read. */
static int32_t mct_plane_rows_of(const mct_tiled_plane *plane, int32_t count) {
    const int32_t span = (plane->kernel_h - 1) * plane->dilation_h;
    const int32_t last = (count - 1) * plane->stride_h + span;
    return (plane->spread_h == 1 ? last : last / plane->spread_h) + 1;
}

/* Where the next output rows meet the image. */
static void mct_plane_set_lines(mct_tiled_plane *plane, int32_t count) {
    const int32_t step = plane->dilation_h, spread = plane->spread_h;
    mct_tiled_plane_row *line = plane->lines;
    for (int32_t row = plane->row; row < plane->row + count; row++, line++) {
        const int32_t top = mct_plane_top(plane, row);
        const int32_t end = plane->kernel_h;
        int32_t y = top, ky = 0;
        if (spread > 1) { /* windows are not dilated then */
            y = mct_plane_source(plane, top > 0 ? top : 0) * spread;
            ky = y - top;
        }
        for (; y < 0 && ky < end; y += step) {
            ky++;
        }
        const int32_t from = mct_plane_source(plane, y);
        int32_t lines = 0, last = from;
        for (; ky + lines * spread < end && last < plane->h; last += step) {
            lines++;
        }
        line->v = plane->kept + (lines > 0 ? (from - plane->base) * plane->width : 0);
        line->w = plane->weights + ky * plane->kernel_w;
        line->first = (int16_t)ky;
        line->lines = (int16_t)lines;
        line->extra = 0;
    }
}

/* What the rows of the window that have no image leave of `fill`. */
static void mct_plane_set_extra(mct_tiled_plane *plane, int32_t count) {
    mct_tiled_plane_row *lines_end = plane->lines + count;
    for (mct_tiled_plane_row *line = plane->lines; line < lines_end; line++) {
        const int32_t end = line->first + line->lines;
        int32_t extra = 0;
        for (int32_t ky = 0; ky < line->first; ky++) {
            extra += plane->row_sums[ky];
        }
        for (int32_t ky = end; ky < plane->kernel_h; ky++) {
            extra += plane->row_sums[ky];
        }
        line->extra = extra;
    }
}

/* ------------------------------------------------------------------------------------ columns */

/* Which pixels of a row lie in the windows. */
static void mct_plane_set_pixels(mct_tiled_plane *plane) {
    const int32_t spread = plane->spread_w;
    plane->first = 0;
    plane->at = plane->pad_left;
    for (; plane->at < 0; plane->at += spread) {
        plane->first++;
    }
    const int32_t room = (plane->width - plane->at + spread - 1) / spread;
    const int32_t count = plane->w - plane->first;
    plane->count = count < room ? count : room;
}

/* Words for so many sums: whole tiles are written. */
static int32_t mct_plane_words(int32_t sums) {
    return sums + MCT_FOUR - 1;
}

/* How many rows of the output a band has, and words for their sums. Whether there is room. */
static int32_t mct_plane_set_band(mct_tiled_plane *plane) {
    const int32_t room = 4 * MCT_TILED_PLANE_WORDS - plane->kernel_h * plane->kernel_w;
    const int32_t least = mct_plane_rows_of(plane, 1);
    plane->piece = mct_min(plane->columns, MCT_TILED_PLANE_COLUMNS);
    if (plane->width > (room - 4 * mct_plane_words(plane->piece)) / least) {
        plane->piece = mct_min(plane->columns, MCT_TILED_PLANE_FEWER);
    }
    const int32_t rows = room - 4 * mct_plane_words(plane->piece);
    if (plane->width > rows / least) {
        return 0;
    }
    plane->band = 1;
    while (plane->band < plane->rows &&
           mct_plane_rows_of(plane, plane->band + 1) * plane->width <= rows) {
        plane->band++;
    }
    const int32_t sums = (room - mct_plane_rows_of(plane, plane->band) * plane->width) / 4;
    plane->made = 1;
    while (plane->piece == plane->columns && plane->made < plane->band &&
           plane->made < MCT_TILED_PLANE_MADE &&
           mct_plane_words((plane->made + 1) * plane->columns) <= sums) {
        plane->made++;
    }
    plane->weights = (int8_t *)(plane->sums + mct_plane_words(plane->made * plane->piece));
    return 1;
}

int32_t mct_tiled_plane_fits(mct_tiled_plane *plane) {
    const int32_t taps = plane->kernel_h * plane->kernel_w;
    const int32_t tiles = (plane->columns + MCT_FOUR - 1) / MCT_FOUR;
    plane->width = (MCT_FOUR * tiles - 1) * plane->stride_w + plane->kernel_w;
    if (plane->kernel_h > MCT_TILED_PLANE_ROWS || taps > 2 * MCT_TILED_PLANE_WORDS ||
        (plane->spread_h > 1 && plane->dilation_h > 1) || !mct_plane_set_band(plane)) {
        return 0;
    }
    plane->kept = plane->weights + taps;
    plane->v_line = plane->width * (plane->spread_h > 1 ? 1 : plane->dilation_h);
    plane->w_line = plane->kernel_w * plane->spread_h;
    memset(plane->kept, plane->fill,
           (size_t)(mct_plane_rows_of(plane, plane->band) * plane->width));
    mct_plane_set_pixels(plane);
    plane->row = 0;
    plane->base = mct_plane_source(plane, mct_plane_top(plane, 0));
    mct_plane_set_lines(plane, mct_min(plane->made, plane->rows));
    return 1;
}

/* ----------------------------------------------------------------------------------- channels */

void mct_tiled_plane_take(mct_tiled_plane *plane, const int8_t *image, const int8_t *w,
                          int32_t w_step, int32_t start) {
    int8_t *to = plane->weights;
    plane->image = image + plane->first * plane->pixel;
    plane->loaded = plane->row = plane->column = plane->band_end = 0;
    for (int32_t ky = 0; ky < plane->kernel_h; ky++) {
        int32_t sum = 0;
        for (const int8_t *end = to + plane->kernel_w; to < end; w += w_step) {
            sum += *w;
            *to++ = *w;
        }
        plane->row_sums[ky] = sum * plane->fill;
        start -= plane->row_sums[ky];
    }
    plane->begin = start;
}

#define MCT_FOUR_PIXELS(n)                                                                         \
    to[n] = *x;                                                                                    \
    x += pixel;                                                                                    \
    to[n + 1] = *x;                                                                                \
    x += pixel;                                                                                    \
    to[n + 2] = *x;                                                                                \
    x += pixel;                                                                                    \
    to[n + 3] = *x;                                                                                \
    x += pixel;
/* Reads the rows of the image before row `end`. Around what their pixels write, `fill` stays from the
 * beginning. */
static void mct_plane_load(mct_tiled_plane *plane, int32_t end) {
    const int32_t pixel = plane->pixel, spread = plane->spread_w, line = plane->w * pixel;
    const int8_t *next = plane->image + plane->loaded * line;
    int8_t *kept = plane->kept + (plane->loaded - plane->base) * plane->width + plane->at;
    for (; plane->loaded < end; plane->loaded++, next += line, kept += plane->width) {
        const int8_t *x = next;
        int8_t *to = kept;
        int32_t count = plane->count;
        for (; spread == 1 && count >= 8; count -= 8, to += 8) {
            MCT_FOUR_PIXELS(0)
            MCT_FOUR_PIXELS(4)
        }
        for (; spread == 1 && count >= 4; count -= 4, to += 4) {
            MCT_FOUR_PIXELS(0)
        }
        for (; count > 0; count--, x += pixel, to += spread) {
            *to = *x;
        }
    }
}

/* The next band: rows that are kept go to its begin, and the others are read. */
static void mct_plane_begin_band(mct_tiled_plane *plane) {
    const int32_t left = plane->rows - plane->row;
    const int32_t count = left < plane->band ? left : plane->band;
    const int32_t before = plane->base;
    plane->band_end = plane->row + count;
    plane->base = mct_plane_source(plane, mct_plane_top(plane, plane->row));
    if (plane->row > 0 && plane->loaded > plane->base) {
        memmove(plane->kept, plane->kept + (plane->base - before) * plane->width,
                (size_t)((plane->loaded - plane->base) * plane->width));
    }
    if (plane->loaded < plane->base) {
        plane->loaded = plane->base;
    }
    const int32_t end = plane->base + mct_plane_rows_of(plane, count);
    mct_plane_load(plane, end < plane->h ? end : plane->h);
}

/* ------------------------------------------------------------------------------------- sums */

/* Compilers order products anew, and load numbers ahead, until they have no register left for the sums. */
#if defined(__GNUC__) && MCT_TILED_CHANNELS == 3
#define MCT_PIN __asm__ volatile("" : "+r"(s0), "+r"(s1), "+r"(s2), "+r"(s3) : : "memory");
#else
#define MCT_PIN
#endif

/* Four sums get a tap's products with the pixels a, b, c, d. */
#define MCT_TAP(tap, a, b, c, d)                                                                   \
    {                                                                                              \
        const int32_t weight = tap;                                                                \
        s0 += a * weight;                                                                          \
        s1 += b * weight;                                                                          \
        s2 += c * weight;                                                                          \
        s3 += d * weight;                                                                          \
        MCT_PIN                                                                                    \
    }
/* clang-format off */
#define MCT_X(n) const int32_t x##n = v[n];
#define MCT_TAPS_3(first, second, third)                                                           \
    MCT_X(0) MCT_X(1) MCT_X(2) MCT_X(3) MCT_TAP(first, x0, x1, x2, x3)                             \
    MCT_X(4) MCT_TAP(second, x1, x2, x3, x4)                                                       \
    MCT_X(5) MCT_TAP(third, x2, x3, x4, x5)
#define MCT_ROW_3 MCT_TAPS_3(w[0], w[1], w[2])
#define MCT_ROW_5                                                                                  \
    MCT_ROW_3                                                                                      \
    MCT_X(6) MCT_TAP(w[3], x3, x4, x5, x6)                                                         \
    MCT_X(7) MCT_TAP(w[4], x4, x5, x6, x7)
#define MCT_ROW_7                                                                                  \
    MCT_ROW_5                                                                                      \
    MCT_X(8) MCT_TAP(w[5], x5, x6, x7, x8)                                                         \
    MCT_X(9) MCT_TAP(w[6], x6, x7, x8, x9)
/* The same of windows that lie two pixels apart. */
#define MCT_ROW_3_APART                                                                            \
    MCT_X(0) MCT_X(2) MCT_X(4) MCT_X(6) MCT_TAP(w[0], x0, x2, x4, x6)                              \
    MCT_X(1) MCT_X(3) MCT_X(5) MCT_X(7) MCT_TAP(w[1], x1, x3, x5, x7)                              \
    MCT_X(8) MCT_TAP(w[2], x2, x4, x6, x8)
#define MCT_ROW_7_APART                                                                            \
    MCT_ROW_3_APART                                                                                \
    MCT_X(9) MCT_TAP(w[3], x3, x5, x7, x9)                                                         \
    MCT_X(10) MCT_TAP(w[4], x4, x6, x8, x10)                                                       \
    MCT_X(11) MCT_TAP(w[5], x5, x7, x9, x11)                                                       \
    MCT_X(12) MCT_TAP(w[6], x6, x8, x10, x12)
/* clang-format on */

#define MCT_STORE_FOUR                                                                             \
    sums[0] = s0;                                                                                  \
    sums[1] = s1;                                                                                  \
    sums[2] = s2;                                                                                  \
    sums[3] = s3;
/* The sums of some rows, of windows that are so wide and lie `step` apart. */
#define MCT_TILES(name, taps, step)                                                                \
    static MCT_APART void name(const mct_tiled_plane *plane, const mct_tiled_plane_row *line,      \
                               const mct_tiled_plane_row *last, int32_t *sums) {                   \
        const int32_t v_line = plane->v_line, w_line = plane->w_line;                              \
        for (; line <= last; line++) {                                                             \
            const int32_t begin = plane->begin + line->extra, lines = line->lines;                 \
            const int8_t *row = line->v + plane->column * step, *first = line->w;                  \
            int32_t *end = sums + plane->now;                                                      \
            for (; sums < end; sums += MCT_FOUR, row += MCT_FOUR * step) {                         \
                int32_t s0 = begin, s1 = s0, s2 = s0, s3 = s0;                                     \
                const int8_t *v = row, *w = first;                                                 \
                for (int32_t n = lines; n > 0; n--, v += v_line, w += w_line) {                    \
                    taps                                                                           \
                }                                                                                  \
                MCT_STORE_FOUR                                                                     \
            }                                                                                      \
            sums = end;                                                                            \
        }                                                                                          \
    }
MCT_TILES(mct_tiles_3, MCT_ROW_3, 1)
MCT_TILES(mct_tiles_5, MCT_ROW_5, 1)
MCT_TILES(mct_tiles_7, MCT_ROW_7, 1)
MCT_TILES(mct_tiles_3_apart, MCT_ROW_3_APART, 2)
MCT_TILES(mct_tiles_7_apart, MCT_ROW_7_APART, 2)

/* Windows of three times three, whose weights stay in registers where there are so many. */
static MCT_APART void mct_tiles_three(const mct_tiled_plane *plane, const mct_tiled_plane_row *line,
                                      const mct_tiled_plane_row *last, int32_t *sums) {
    const int8_t *w = plane->weights;
    const int32_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w4 = w[4], w5 = w[5];
    const int32_t w6 = w[6], w7 = w[7], w8 = w[8], v_line = plane->v_line;
    for (; line <= last; line++) {
        int32_t *end = sums + plane->now;
        if (line->lines < 3) {
            mct_tiles_3(plane, line, line, sums);
            sums = end;
            continue;
        }
        const int32_t begin = plane->begin;
        const int8_t *row = line->v + plane->column;
        for (; sums < end; sums += MCT_FOUR, row += MCT_FOUR) {
            int32_t s0 = begin, s1 = s0, s2 = s0, s3 = s0;
            const int8_t *v = row;
            {MCT_TAPS_3(w0, w1, w2)} v += v_line;
            {MCT_TAPS_3(w3, w4, w5)} v += v_line;
            {MCT_TAPS_3(w6, w7, w8)} MCT_STORE_FOUR
        }
        sums = end;
    }
}

/* The same for any number of taps and any stride. */
static MCT_APART void mct_tiles_any(const mct_tiled_plane *plane, const mct_tiled_plane_row *line,
                                    const mct_tiled_plane_row *last, int32_t *sums) {
    const int32_t step = plane->stride_w, taps = plane->kernel_w;
    for (; line <= last; line++) {
        const int8_t *row = line->v + plane->column * step;
        int32_t *end = sums + plane->now;
        for (; sums < end; sums += MCT_FOUR, row += MCT_FOUR * step) {
            int32_t s0 = plane->begin + line->extra, s1 = s0, s2 = s0, s3 = s0;
            const int8_t *v = row, *w = line->w;
            for (int32_t n = line->lines; n > 0; n--, v += plane->v_line, w += plane->w_line) {
                for (int32_t k = 0; k < taps; k++) {
                    const int32_t tap = w[k];
                    s0 += v[k] * tap;
                    s1 += v[k + step] * tap;
                    s2 += v[k + 2 * step] * tap;
                    s3 += v[k + 3 * step] * tap;
                }
            }
            MCT_STORE_FOUR
        }
        sums = end;
    }
}

typedef void mct_tiles(const mct_tiled_plane *plane, const mct_tiled_plane_row *line,
                       const mct_tiled_plane_row *last, int32_t *sums);

static mct_tiles *mct_tiles_of(const mct_tiled_plane *plane) {
    switch (plane->kernel_w * 4 + plane->stride_w) {
    case 3 * 4 + 1:
        return plane->kernel_h == 3 && plane->spread_h == 1 ? mct_tiles_three : mct_tiles_3;
    case 5 * 4 + 1:
        return mct_tiles_5;
    case 7 * 4 + 1:
        return mct_tiles_7;
    case 3 * 4 + 2:
        return mct_tiles_3_apart;
    case 7 * 4 + 2:
        return mct_tiles_7_apart;
    default:
        return mct_tiles_any;
    }
}

int32_t mct_tiled_plane_next(mct_tiled_plane *plane) {
    if (plane->row >= plane->rows) {
        return 0;
    }
    const int32_t left = plane->rows - plane->row;
    int32_t count = left < plane->made ? left : plane->made;
    if (plane->column == 0) {
        if (plane->row == plane->band_end) {
            mct_plane_begin_band(plane);
        }
        if (plane->made < plane->rows) {
            count = mct_min(count, plane->band_end - plane->row);
            mct_plane_set_lines(plane, count);
        }
        if (plane->fill != 0) {
            mct_plane_set_extra(plane, count);
        }
    }
    plane->now = mct_min(plane->columns - plane->column, plane->piece);
    mct_tiles_of(plane)(plane, plane->lines, plane->lines + count - 1, plane->sums);
    plane->column += plane->now;
    if (plane->column == plane->columns) {
        plane->column = 0;
        plane->row += count;
    }
    return count * plane->now;
}
