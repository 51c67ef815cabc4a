/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of one row of a convolution's weight gradient: [kernel_h][kernel_w][channels of x]. */
#ifndef MCT_TILED_WEIGHT_H
#define MCT_TILED_WEIGHT_H

#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_window.h"

/* A convolution, whose output channel is in hand, and one tap of its window. */
typedef struct {
    const mct_shape *x, *dy;
    const mct_window *window;
    int32_t zero_point;
    mct_span rows, columns;  /* of dy, whose tap lies in x */
    const int8_t *dy_values; /* of the first of these */
    const int8_t *x_values;  /* of the pixel that its tap reads */
} mct_weight_tap;

/* sums[i] += d * x[i] for i < count */
static MCT_ALWAYS_INLINE void mct_weight_add(int32_t d, const int8_t *x, int32_t count,
                                             int32_t *sums) {
    for (; count >= 4; count -= 4, x += 4, sums += 4) {
        sums[0] += d * x[0];
        sums[1] += d * x[1];
        sums[2] += d * x[2];
        sums[3] += d * x[3];
    }
    for (; count > 0; count--) {
        *sums++ += d * *x++;
    }
}

/* Half of the gradients are zero: those of clamped values. So a sum lies in memory and each of the others
 * passes over all channels, instead of all gradients over a few channels in registers. */
static MCT_APART void mct_weight_tap_sums(const mct_weight_tap *t, int32_t *sums) {
    const int32_t channels = t->x->c, dy_step = t->dy->c, x_step = t->window->stride_w * channels;
    int32_t all = 0;
    for (int32_t i = 0; i < channels; i++) {
        sums[i] = 0;
    }
    for (int32_t row = 0; row < t->rows.end - t->rows.begin; row++) {
        const int8_t *dy = t->dy_values + row * t->dy->w * dy_step;
        const int8_t *x = t->x_values + row * t->window->stride_h * t->x->w * channels;
        for (int32_t n = t->columns.begin; n < t->columns.end; n++, x += x_step, dy += dy_step) {
            if (*dy != 0) {
                all += *dy;
                mct_weight_add(*dy, x, channels, sums);
            }
        }
    }
    all *= t->zero_point;
    for (int32_t i = 0; i < channels; i++) {
        sums[i] -= all;
    }
}

/* Whether an output channel has no gradient at any position. step: from one to the next */
static inline int mct_weight_is_silent(const int8_t *dy, int32_t positions, int32_t step) {
    for (; positions > 0 && *dy == 0; positions--) {
        dy += positions > 1 ? step : 0;
    }
    return positions == 0;
}

/* Of output channel o. */
static MCT_APART void mct_weight_row(const mct_shape *x, const mct_shape *dy, const mct_window *win,
                                     int32_t zero_point, const int8_t *dy_values,
                                     const int8_t *x_values, int32_t o, int32_t *sums) {
    mct_weight_tap t = {.x = x, .dy = dy, .window = win, .zero_point = zero_point};
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        const int32_t at_y = ky * win->dilation_h - win->pad_top;
        t.rows = mct_tiled_places(at_y, win->stride_h, x->h, dy->h);
        for (int32_t kx = 0; kx < win->kernel_w; kx++, sums += x->c) {
            const int32_t at_x = kx * win->dilation_w - win->pad_left;
            t.columns = mct_tiled_places(at_x, win->stride_w, x->w, dy->w);
            const int32_t iy = t.rows.begin * win->stride_h + at_y;
            const int32_t ix = t.columns.begin * win->stride_w + at_x;
            t.dy_values = dy_values + (t.rows.begin * dy->w + t.columns.begin) * dy->c + o;
            t.x_values = x_values + (iy * x->w + ix) * x->c;
            mct_weight_tap_sums(&t, sums);
        }
    }
}

#endif
