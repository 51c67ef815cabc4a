/* SPDX-License-Identifier: Apache-2.0 */
/* The two factors of a convolution as mct_product wants them: a row is the window of x at a position
 * of y, a column is an output channel's weights. */
#ifndef MCT_CONV_FACTORS_H
#define MCT_CONV_FACTORS_H

#include "mct_fixedpoint.h"
#include "mct_product.h"

typedef struct {
    const mct_shape *x_shape, *y_shape;
    const mct_window *window;
    int32_t x_zero_point;
    const int8_t *x, *w;
    const mct_trained_columns *columns; /* of w, if `trained` is not NULL */
    const int8_t *trained;
} mct_conv_job;

static inline int32_t mct_conv_depth(const mct_conv_job *job) {
    return job->window->kernel_h * job->window->kernel_w * job->x_shape->c;
}

/* `count` bytes, by moves of fixed sizes, of which the last may overlap the one before. */
static inline void mct_copy_bytes(int8_t *to, const int8_t *from, int32_t count) {
    int32_t i = 0;
    if (count >= 16) {
        for (; i + 16 < count; i += 16) {
            memcpy(to + i, from + i, 16);
        }
        memcpy(to + count - 16, from + count - 16, 16);
    } else if (count >= 8) {
        memcpy(to, from, 8);
        memcpy(to + count - 8, from + count - 8, 8);
    } else if (count >= 4) {
        memcpy(to, from, 4);
        memcpy(to + count - 4, from + count - 4, 4);
    } else if (count > 0) {
        to[0] = from[0];
        to[count / 2] = from[count / 2];
        to[count - 1] = from[count - 1];
    }
}

/* a[i] = line[first + i] where that lies in the line, else the zero point, for i < count. */
static inline void mct_copy_run(const int8_t *line, int32_t length, int32_t first, int32_t count,
                                int32_t zero_point, int8_t *a) {
    if (first >= 0 && first + count <= length) {
        mct_copy_bytes(a, line + first, count);
        return;
    }
    const int32_t from = mct_clamp(-first, 0, count);
    const int32_t to = mct_clamp(length - first, from, count);
    for (int32_t i = 0; i < from; i++) {
        a[i] = (int8_t)zero_point;
    }
    mct_copy_bytes(a + from, line + (first + from), to - from);
    for (int32_t i = to; i < count; i++) {
        a[i] = (int8_t)zero_point;
    }
}

/* Elements k … k + depth - 1 of the window at (row, column). Taps that lie beside each other in a
 * row of x are one run. */
static inline void mct_conv_window(const mct_conv_job *job, int32_t row, int32_t column, int32_t k,
                                   int32_t depth, int8_t *a) {
    const mct_window *win = job->window;
    const mct_shape *x = job->x_shape;
    const int merged = win->dilation_w == 1;
    const int32_t run = (merged ? win->kernel_w : 1) * x->c;
    const int32_t begin = k == 0 ? 0 : k / run; /* a division takes as long as a copy */
    int32_t skipped = k - begin * run;
    int32_t at = 0;
    for (int32_t r = begin; at < depth; r++) {
        const int32_t ky = merged ? r : r / win->kernel_w;
        const int32_t kx = merged ? 0 : r % win->kernel_w;
        const int32_t iy = row * win->stride_h + ky * win->dilation_h - win->pad_top;
        const int32_t ix = column * win->stride_w + kx * win->dilation_w - win->pad_left;
        const int inside = iy >= 0 && iy < x->h;
        const int8_t *line = job->x + (inside ? iy * x->w * x->c : 0);
        const int32_t count = mct_min(run - skipped, depth - at);
        mct_copy_run(line, inside ? x->w * x->c : 0, ix * x->c + skipped, count, job->x_zero_point,
                     a + at);
        at += count;
        skipped = 0;
    }
}

/* Whether the rows of factors lie in x as they are. */
static inline int mct_conv_is_pointwise(const mct_conv_job *job) {
    const mct_window *win = job->window;
    return win->kernel_h * win->kernel_w * win->stride_h * win->stride_w == 1 &&
           win->pad_top == 0 && win->pad_left == 0 && job->x_shape->w == job->y_shape->w &&
           job->x_shape->h == job->y_shape->h;
}

/* Whether the 16 numbers from any tap's first one on lie in x, at a position whose window lies in the
 * image, or in a part of it that is row by row. */
static inline int mct_conv_is_inside(const mct_conv_job *job, int32_t row, int32_t column) {
    const mct_window *win = job->window;
    const mct_shape *x = job->x_shape;
    const int32_t top = row * win->stride_h - win->pad_top;
    const int32_t left = column * win->stride_w - win->pad_left;
    const int32_t below = top + win->kernel_h, right = left + win->kernel_w;
    const int32_t last = ((below - 1) * x->w + left) * x->c;
    return top >= 0 && left >= 0 && below <= x->h && right <= x->w &&
           last + 16 * ((win->kernel_w * x->c + 15) / 16) <= x->h * x->w * x->c;
}

/* A whole window that lies in the image, by moves of 16 bytes, of which the last of a run overwrites
 * what comes after it. */
static inline void mct_conv_copy_window(const mct_conv_job *job, int32_t row, int32_t column,
                                        int8_t *a) {
    const mct_window *win = job->window;
    const mct_shape *x = job->x_shape;
    const int32_t run = win->kernel_w * x->c, line = x->w * x->c;
    const int8_t *from = job->x + (row * win->stride_h - win->pad_top) * line +
                         (column * win->stride_w - win->pad_left) * x->c;
    for (int32_t ky = 0; ky < win->kernel_h; ky++) {
        for (int32_t i = 0; i < run; i += 16) {
            memcpy(a + i, from + i, 16);
        }
        a += run;
        from += line;
    }
}

static void mct_conv_fill_a(const void *job_, int32_t row, int32_t rows, int32_t k, int32_t depth,
                            int32_t stride, int8_t *a) {
    const mct_conv_job *job = job_;
    const mct_window *win = job->window;
    const int dense = win->dilation_h == 1 && win->dilation_w == 1;
    const int is_whole = dense && depth == mct_conv_depth(job);
    int32_t y = row / job->y_shape->w;
    int32_t x = row % job->y_shape->w;
    for (int32_t r = 0; r < rows; r++) {
        if (is_whole && mct_conv_is_inside(job, y, x)) {
            mct_conv_copy_window(job, y, x, a + r * stride);
        } else {
            mct_conv_window(job, y, x, k, depth, a + r * stride);
        }
        if (++x == job->y_shape->w) {
            x = 0;
            y++;
        }
    }
}

static void mct_conv_fill_b(const void *job_, int32_t k, int32_t depth, int32_t column,
                            int32_t columns, int8_t *b) {
    const mct_conv_job *job = job_;
    const int32_t w_row = mct_conv_depth(job);
    mct_fill_along(job->w + column * w_row + k, w_row, depth, columns, b);
}

/* What is trained comes in the place of what w has there. */
static void mct_conv_fill_trained(const mct_conv_job *job, int32_t k, int32_t depth, int32_t column,
                                  int32_t columns, int8_t *b) {
    const mct_trained_columns *t = job->columns;
    const int32_t channels = job->x_shape->c;
    const int32_t row = mct_conv_depth(job) / channels * t->columns;
    for (int32_t tap = k / channels; tap * channels < k + depth; tap++) {
        for (int32_t j = 0; j < t->columns; j++) {
            const int32_t d = tap * channels + (t->channels == NULL ? j : t->channels[j]) - k;
            const int8_t *w = job->trained + column * row + tap * t->columns + j;
            for (int32_t c = 0; d >= 0 && d < depth && c < columns; c++) {
                b[mct_quad_place(d, c)] = w[c * row];
            }
        }
    }
}

static void mct_conv_fill_merged(const void *job, int32_t k, int32_t depth, int32_t column,
                                 int32_t columns, int8_t *b) {
    mct_conv_fill_b(job, k, depth, column, columns, b);
    mct_conv_fill_trained(job, k, depth, column, columns, b);
}

static inline void mct_conv_run(const mct_conv_job *job, mct_take *take, void *result) {
    const mct_product product = {
        .rows = job->y_shape->h * job->y_shape->w,
        .columns = job->y_shape->c,
        .depth = mct_conv_depth(job),
        .job = job,
        .a_zero_point = job->x_zero_point,
        .a = mct_conv_is_pointwise(job) ? job->x : NULL,
        .a_step = job->x_shape->c,
        .fill_a = mct_conv_fill_a,
        .fill_b = job->trained == NULL ? mct_conv_fill_b : mct_conv_fill_merged,
        .take = take,
        .result = result,
    };
    mct_product_run(&product);
}

#endif
