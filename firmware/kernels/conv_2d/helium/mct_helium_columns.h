/* SPDX-License-Identifier: Apache-2.0 */
/* What a convolution multiplies its weights with at a position, in one row of bytes: its column. */
#ifndef MCT_HELIUM_COLUMNS_H
#define MCT_HELIUM_COLUMNS_H

#include "mct_fixedpoint.h"
#include "mct_helium.h"
#include "mct_types.h"

typedef struct {
    const mct_shape *x;
    const mct_window *window;
    int32_t zero_point;
    const int8_t *from;
    int32_t channels; /* of each pixel, from `from` on: all that x has, or a group */
} mct_helium_columns;

/* The terms k … k + depth - 1 of the window whose first pixel is (iy, ix). */
static inline void mct_helium_column_part(const mct_helium_columns *c, int32_t iy, int32_t ix,
                                          int32_t k, int32_t depth, int8_t *to) {
    const int32_t channels = c->channels, pixel = c->x->c;
    const mct_window *win = c->window;
    int32_t i = k % channels;
    int32_t kx = k / channels % win->kernel_w;
    int32_t ky = k / channels / win->kernel_w;
    while (depth > 0) {
        const int32_t at_y = iy + ky * win->dilation_h;
        const int32_t at_x = ix + kx * win->dilation_w;
        /* neighbouring taps lie next to each other in x, too, unless they are dilated or of a group */
        int32_t taps = win->dilation_w == 1 && channels == pixel ? win->kernel_w - kx : 1;
        const int inside = at_y >= 0 && at_y < c->x->h && at_x >= 0 && at_x < c->x->w;
        taps = !inside ? 1 : mct_min(taps, c->x->w - at_x);
        const int32_t count = mct_min(taps * channels - i, depth);
        if (inside) {
            mct_helium_copy(to, c->from + (at_y * c->x->w + at_x) * pixel + i, count);
        } else {
            mct_helium_fill(to, (int8_t)c->zero_point, count);
        }
        to += count;
        depth -= count;
        i = 0;
        kx += taps;
        if (kx == win->kernel_w) {
            kx = 0;
            ky++;
        }
    }
}

/* All terms of it; a window inside the image is a few rows. */
static inline void mct_helium_column(const mct_helium_columns *c, int32_t iy, int32_t ix,
                                     int8_t *to) {
    const mct_window *win = c->window;
    const int32_t count = win->kernel_w * c->channels;
    if (win->dilation_w != 1 || win->dilation_h != 1 || c->channels != c->x->c || iy < 0 ||
        ix < 0 || iy + win->kernel_h > c->x->h || ix + win->kernel_w > c->x->w) {
        mct_helium_column_part(c, iy, ix, 0, win->kernel_h * count, to);
        return;
    }
    const int8_t *from = c->from + (iy * c->x->w + ix) * c->channels;
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        mct_helium_copy(to, from, count);
        to += count;
        from += c->x->w * c->channels;
    }
}

#endif
