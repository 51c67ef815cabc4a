/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of one tap of a depthwise convolution's weight gradient, four channels at a time where these lie
 * next to each other. */
#ifndef MCT_TILED_DEPTHWISE_WEIGHT_H
#define MCT_TILED_DEPTHWISE_WEIGHT_H

#include "mct_tiled.h"
#include "mct_window.h"

/* A depthwise convolution, and one tap of its window. */
typedef struct {
    const mct_shape *x, *dy;
    const mct_window *window;
    int32_t zero_point;
    mct_span rows, columns;  /* of dy, whose tap lies in x */
    const int8_t *dy_values; /* of the first of these */
    const int8_t *x_values;  /* of the pixel that its tap reads */
} mct_weight_tap;

/* The channels c … c + 3 of dy by the channels i … i + 3 of x. */
static MCT_APART void mct_weight_four(const mct_weight_tap *t, int32_t c, int32_t i,
                                      int32_t *sums) {
    const int32_t dy_step = t->dy->c, x_step = t->window->stride_w * t->x->c;
    const int32_t columns = t->columns.end - t->columns.begin;
    mct_tiled_four s = {0, 0, 0, 0};
    for (int32_t row = 0; row < t->rows.end - t->rows.begin; row++) {
        const int8_t *dy = t->dy_values + row * t->dy->w * dy_step + c;
        const int8_t *x = t->x_values + row * t->window->stride_h * t->x->w * t->x->c + i;
        s = mct_tiled_add_four(x, x_step, t->zero_point, dy, dy_step, columns, s);
    }
    sums[0] = s.s0;
    sums[1] = s.s1;
    sums[2] = s.s2;
    sums[3] = s.s3;
}

/* The channel c of dy by the channel i of x. */
static MCT_APART int32_t mct_weight_one(const mct_weight_tap *t, int32_t c, int32_t i) {
    const int32_t dy_step = t->dy->c, x_step = t->window->stride_w * t->x->c;
    const int32_t zero_point = t->zero_point;
    int32_t sum = 0;
    for (int32_t row = 0; row < t->rows.end - t->rows.begin; row++) {
        const int8_t *dy = t->dy_values + row * t->dy->w * dy_step + c;
        const int8_t *x = t->x_values + row * t->window->stride_h * t->x->w * t->x->c + i;
        for (int32_t n = t->columns.begin; n < t->columns.end; n++, x += x_step, dy += dy_step) {
            sum += *dy * (*x - zero_point);
        }
    }
    return sum;
}

/* The tap (ky, kx) at `count` channels; channels, x_columns: as in mct_depthwise_conv_2d.h. */
static MCT_APART void mct_weight_tap_sums(mct_weight_tap *t, int32_t ky, int32_t kx,
                                          const int8_t *dy, const int8_t *x, int32_t count,
                                          const int16_t *channels, const int16_t *x_columns,
                                          int32_t *sums) {
    const mct_window *win = t->window;
    const int32_t at_y = ky * win->dilation_h - win->pad_top;
    const int32_t at_x = kx * win->dilation_w - win->pad_left;
    t->rows = mct_tiled_places(at_y, win->stride_h, t->x->h, t->dy->h);
    t->columns = mct_tiled_places(at_x, win->stride_w, t->x->w, t->dy->w);
    const int32_t iy = t->rows.begin * win->stride_h + at_y;
    const int32_t ix = t->columns.begin * win->stride_w + at_x;
    t->dy_values = dy + (t->rows.begin * t->dy->w + t->columns.begin) * t->dy->c;
    t->x_values = x + (iy * t->x->w + ix) * t->x->c;
    for (int32_t j = 0; j < count;) {
        const int32_t c = channels == NULL ? j : channels[j];
        const int32_t i = x_columns == NULL ? j : x_columns[j];
        if (j + 4 <= count && (channels == NULL || channels[j + 3] == c + 3) &&
            (x_columns == NULL || x_columns[j + 3] == i + 3)) {
            mct_weight_four(t, c, i, sums + j);
            j += 4;
        } else {
            sums[j++] = mct_weight_one(t, c, i);
        }
    }
}

#endif
