/* SPDX-License-Identifier: Apache-2.0 */
/* The weight gradient of a convolution as products, one for each tap: a row is an output channel, a
 * column is a channel of x; k counts the positions of dy. */
#ifndef MCT_CONV_WEIGHT_FACTORS_H
#define MCT_CONV_WEIGHT_FACTORS_H

#include "mct_product.h"
#include "mct_types.h"
#include "mct_window.h"

typedef struct {
    const mct_shape *x_shape, *dy_shape;
    const mct_window *window;
    int32_t x_zero_point;
    const int8_t *dy, *x;
    int32_t tap;
} mct_weight_job;

static void mct_weight_fill_a(const void *job_, int32_t k, int32_t depth, int32_t row, int32_t rows,
                              int8_t *a) {
    const mct_weight_job *job = job_;
    const int32_t outs = job->dy_shape->c;
    mct_fill_across(job->dy + k * outs + row, outs, depth, rows, 0, MCT_BLOCK_ROWS, a);
}

/* The channels of x that positions of dy see through the tap; zero points outside. */
static void mct_weight_fill_b(const void *job_, int32_t k, int32_t depth, int32_t column,
                              int32_t columns, int8_t *b) {
    const mct_weight_job *job = job_;
    const mct_window *win = job->window;
    const mct_shape *x = job->x_shape;
    const int32_t width = job->dy_shape->w;
    const int32_t top = job->tap / win->kernel_w * win->dilation_h - win->pad_top;
    const int32_t left = job->tap % win->kernel_w * win->dilation_w - win->pad_left;
    int32_t row = k / width, at = k % width;
    for (int32_t d = 0; d < depth; d += 4) {
        const int8_t *lines[4] = {NULL};
        for (int32_t i = 0; i < 4 && d + i < depth; i++) {
            const int32_t iy = row * win->stride_h + top, ix = at * win->stride_w + left;
            if (iy >= 0 && iy < x->h && ix >= 0 && ix < x->w) {
                lines[i] = job->x + (iy * x->w + ix) * x->c + column;
            }
            if (++at == width) {
                at = 0;
                row++;
            }
        }
        mct_fill_lines(lines, columns, job->x_zero_point, b + d * MCT_TILE_COLUMNS);
    }
}

static inline void mct_weight_run(const mct_weight_job *job, mct_take *take, void *result) {
    const mct_product product = {
        .rows = job->dy_shape->c,
        .columns = job->x_shape->c,
        .depth = job->dy_shape->h * job->dy_shape->w,
        .job = job,
        .b_zero_point = job->x_zero_point,
        .fill_a_quads = mct_weight_fill_a,
        .fill_b = mct_weight_fill_b,
        .take = take,
        .result = result,
    };
    mct_product_run(&product);
}

#endif
