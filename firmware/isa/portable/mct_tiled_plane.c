/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_tiled_plane.h"

#include <string.h>

#include "mct_tiled.h"

#define MCT_FOUR 4

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

int32_t mct_tiled_plane_fits(mct_tiled_plane *plane) {
    const int32_t span = (plane->kernel_h - 1) * plane->dilation_h + 1;
    const int32_t taps = plane->kernel_h * plane->kernel_w;
    const int32_t tiles = (plane->columns + MCT_FOUR - 1) / MCT_FOUR;
    plane->kept = (span + plane->spread_h - 1) / plane->spread_h;
    plane->width = (MCT_FOUR * tiles - 1) * plane->stride_w + plane->kernel_w;
    plane->weights = plane->bytes;
    plane->ring = plane->bytes + taps;
    const int fits = plane->kernel_h <= MCT_TILED_PLANE_ROWS && taps < MCT_TILED_PLANE_BYTES / 2 &&
                     plane->width <= (MCT_TILED_PLANE_BYTES - taps) / plane->kept;
    if (fits) {
        plane->ring_end = plane->ring + plane->kept * plane->width;
        memset(plane->ring, plane->fill, (size_t)(plane->kept * plane->width));
        mct_plane_set_pixels(plane);
    }
    return fits;
}

void mct_tiled_plane_take(mct_tiled_plane *plane, const int8_t *image, const int8_t *w,
                          int32_t w_step, int32_t start) {
    int8_t *to = plane->weights;
    plane->next = image + plane->first * plane->pixel;
    plane->start = start;
    plane->loaded = plane->row = plane->column = 0;
    plane->newest = plane->ring_end - plane->width;
    for (int32_t ky = 0; ky < plane->kernel_h; ky++) {
        int32_t sum = 0;
        for (const int8_t *end = to + plane->kernel_w; to < end; w += w_step) {
            sum += *w;
            *to++ = *w;
        }
        plane->row_sums[ky] = sum * plane->fill;
    }
}

/* Reads the next row of the image. Around what its pixels write, `fill` stays from the beginning. */
static void mct_plane_load_next(mct_tiled_plane *plane) {
    const int32_t pixel = plane->pixel, spread = plane->spread_w;
    const int8_t *x = plane->next;
    int32_t count = plane->count;
    plane->loaded++;
    plane->next = x + plane->w * pixel;
    plane->newest += plane->width;
    if (plane->newest == plane->ring_end) {
        plane->newest = plane->ring;
    }
    if (count <= 0) {
        return;
    }
    int8_t *to = plane->newest + plane->at;
    if (spread == 1) {
        for (; count >= 4; count -= 4, to += 4) {
            to[0] = *x;
            x += pixel;
            to[1] = *x;
            x += pixel;
            to[2] = *x;
            x += pixel;
            to[3] = *x;
            x += pixel;
        }
    }
    for (; count > 0; count--, x += pixel, to += spread) {
        *to = *x;
    }
}

/* Where a row of the image is kept. */
static inline const int8_t *mct_plane_kept(const mct_tiled_plane *plane, int32_t row) {
    const int8_t *v = plane->newest - (plane->loaded - 1 - row) * plane->width;
    return v < plane->ring ? v + plane->kept * plane->width : v;
}

/* The rows of the window at y over an image whose rows are not spread. */
static void mct_plane_lines_next(mct_tiled_plane *plane, int32_t y) {
    const int32_t step = plane->dilation_h;
    const int32_t skip = step * plane->width;
    mct_tiled_plane_line *line = plane->lines;
    int32_t begin = plane->start, ky = 0, last = y + (plane->kernel_h - 1) * step;
    for (; y < 0; y += step) {
        ky++;
    }
    while (last >= plane->h) {
        last -= step;
    }
    if (y <= last) {
        const int8_t *v = mct_plane_kept(plane, y), *w = plane->weights + ky * plane->kernel_w;
        for (; y <= last; y += step, w += plane->kernel_w) {
            *line++ = (mct_tiled_plane_line){v, w};
            begin -= plane->row_sums[ky++];
            v += skip;
            if (v >= plane->ring_end) {
                v -= plane->kept * plane->width;
            }
        }
    }
    plane->begin = begin;
    plane->lines_end = line;
}

/* The same if rows are spread: those between the image's are left out. */
static void mct_plane_lines_spread(mct_tiled_plane *plane, int32_t y) {
    const int32_t spread = plane->spread_h;
    const int8_t *w = plane->weights;
    mct_tiled_plane_line *line = plane->lines;
    plane->begin = plane->start;
    for (int32_t ky = 0; ky < plane->kernel_h; ky++, y += plane->dilation_h, w += plane->kernel_w) {
        const int32_t from = y < 0 ? -1 : spread == 2 ? y >> 1 : y / spread;
        if (from >= 0 && from < plane->h && from * spread == y) {
            *line++ = (mct_tiled_plane_line){mct_plane_kept(plane, from), w};
            plane->begin -= plane->row_sums[ky];
        }
    }
    plane->lines_end = line;
}

static void mct_plane_begin_row(mct_tiled_plane *plane) {
    const int32_t y = plane->row * plane->stride_h - plane->pad_top;
    const int32_t last = y + (plane->kernel_h - 1) * plane->dilation_h;
    if (plane->spread_h == 1) {
        while (plane->loaded <= last && plane->loaded < plane->h) {
            mct_plane_load_next(plane);
        }
        mct_plane_lines_next(plane, y);
        return;
    }
    while (plane->loaded < plane->h && plane->loaded * plane->spread_h <= last) {
        mct_plane_load_next(plane);
    }
    mct_plane_lines_spread(plane, y);
}

/* A tap of four sums whose windows lie `step` apart. */
#define MCT_TAP(n, step)                                                                           \
    {                                                                                              \
        const int32_t tap = w[n];                                                                  \
        s0 += v[n] * tap;                                                                          \
        s1 += v[n + step] * tap;                                                                   \
        s2 += v[n + 2 * step] * tap;                                                               \
        s3 += v[n + 3 * step] * tap;                                                               \
    }
#define MCT_TAPS_3(step) MCT_TAP(0, step) MCT_TAP(1, step) MCT_TAP(2, step)
#define MCT_TAPS_5(step) MCT_TAPS_3(step) MCT_TAP(3, step) MCT_TAP(4, step)
#define MCT_TAPS_7(step) MCT_TAPS_5(step) MCT_TAP(5, step) MCT_TAP(6, step)
/* Four sums and more, of windows that are so wide and lie `step` apart. */
#define MCT_TILES(name, taps, step)                                                                \
    static MCT_APART void name(const mct_tiled_plane *plane, int32_t at, int32_t *sums,            \
                               const int32_t *end) {                                               \
        const mct_tiled_plane_line *lines = plane->lines, *lines_end = plane->lines_end;           \
        const int32_t begin = plane->begin;                                                        \
        for (at *= step; sums < end; sums += MCT_FOUR, at += MCT_FOUR * step) {                    \
            int32_t s0 = begin, s1 = s0, s2 = s0, s3 = s0;                                         \
            for (const mct_tiled_plane_line *line = lines; line < lines_end; line++) {             \
                const int8_t *v = line->v + at, *w = line->w;                                      \
                taps(step)                                                                         \
            }                                                                                      \
            sums[0] = s0;                                                                          \
            sums[1] = s1;                                                                          \
            sums[2] = s2;                                                                          \
            sums[3] = s3;                                                                          \
        }                                                                                          \
    }
MCT_TILES(mct_tiles_3, MCT_TAPS_3, 1)
MCT_TILES(mct_tiles_5, MCT_TAPS_5, 1)
MCT_TILES(mct_tiles_7, MCT_TAPS_7, 1)
MCT_TILES(mct_tiles_3_apart, MCT_TAPS_3, 2)
MCT_TILES(mct_tiles_7_apart, MCT_TAPS_7, 2)

/* The same for any number of taps and any stride. */
static MCT_APART void mct_tiles_any(const mct_tiled_plane *plane, int32_t at, int32_t *sums,
                                    const int32_t *end) {
    const int32_t step = plane->stride_w, taps = plane->kernel_w;
    for (; sums < end; sums += MCT_FOUR, at += MCT_FOUR) {
        int32_t s0 = plane->begin, s1 = s0, s2 = s0, s3 = s0;
        for (const mct_tiled_plane_line *line = plane->lines; line < plane->lines_end; line++) {
            const int8_t *w = line->w, *w_end = w + taps;
            const int8_t *v0 = line->v + at * step, *v1 = v0 + step, *v2 = v1 + step;
            const int8_t *v3 = v2 + step;
            while (w < w_end) {
                const int32_t tap = *w++;
                s0 += *v0++ * tap;
                s1 += *v1++ * tap;
                s2 += *v2++ * tap;
                s3 += *v3++ * tap;
            }
        }
        sums[0] = s0;
        sums[1] = s1;
        sums[2] = s2;
        sums[3] = s3;
    }
}

typedef void mct_tiles(const mct_tiled_plane *plane, int32_t at, int32_t *sums, const int32_t *end);

static mct_tiles *mct_tiles_of(const mct_tiled_plane *plane) {
    switch (plane->kernel_w * 4 + plane->stride_w) {
    case 3 * 4 + 1:
        return mct_tiles_3;
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
    mct_tiles *tiles = mct_tiles_of(plane);
    int32_t made = 0;
    while (plane->row < plane->rows) {
        const int32_t room = MCT_TILED_PLANE_SUMS - made;
        int32_t count = plane->columns - plane->column;
        if (count > room) {
            if (made > 0) {
                break;
            }
            count = room;
        }
        if (plane->column == 0) {
            mct_plane_begin_row(plane);
        }
        tiles(plane, plane->column, plane->sums + made, plane->sums + made + count);
        made += count;
        plane->column += count;
        if (plane->column == plane->columns) {
            plane->column = 0;
            plane->row++;
        }
    }
    return made;
}
