/* The two factors of a convolution as mct_product wants them: windows of x, and weights. */
#ifndef MCT_CONV_ROWS_H
#define MCT_CONV_ROWS_H

#include "mct_fixedpoint.h"
#include "mct_product.h"

typedef struct {
    const mct_shape *x, *y;
    const mct_window *window;
    int32_t x_zero_point;
    const int8_t *xs, *w;
} mct_conv_job;

/* a[i] = x[i] - zero_point */
static inline void mct_widen(const int8_t *x, int32_t count, int32_t zero_point, int16_t *a) {
    for (int32_t i = 0; i < count; i++) {
        a[i] = (int16_t)(x[i] - zero_point);
    }
}

/* a[i] = x[i] - zero_point for i in 0 … count - 1 with low <= i < high, else 0 */
static inline void mct_widen_inside(const int8_t *x, int32_t count, int32_t low, int32_t high,
                                    int32_t zero_point, int16_t *a) {
    const int32_t from = mct_clamp(low, 0, count);
    const int32_t to = mct_clamp(high, from, count);
    for (int32_t i = 0; i < from; i++) {
        a[i] = 0;
    }
    mct_widen(x + from, to - from, zero_point, a + from);
    for (int32_t i = to; i < count; i++) {
        a[i] = 0;
    }
}

/* Elements k … k + depth - 1 of the window of x at output (row, column). Taps beside each other in
 * a row of x are one run. */
static inline void mct_conv_window(const mct_conv_job *job, int32_t row, int32_t column, int32_t k,
                                   int32_t depth, int16_t *a) {
    const mct_window *win = job->window;
    const int32_t c = job->x->c;
    const int32_t run_taps = win->dilation_w == 1 ? win->kernel_w : 1;
    const int32_t run = run_taps * c;
    const int32_t line = job->x->w * c;
    int32_t at = k;
    while (at < k + depth) {
        const int32_t tap = at / run * run_taps;
        const int32_t skipped = at % run;
        const int32_t count = mct_min(run - skipped, k + depth - at);
        const int32_t iy =
            row * win->stride_h + tap / win->kernel_w * win->dilation_h - win->pad_top;
        const int32_t ix =
            column * win->stride_w + tap % win->kernel_w * win->dilation_w - win->pad_left;
        const int32_t first = ix * c + skipped; /* of the run, in the line of x */
        if (iy < 0 || iy >= job->x->h) {
            memset(a + at - k, 0, (size_t)count * sizeof *a);
        } else {
            mct_widen_inside(job->xs + iy * line + first, count, -first, line - first,
                             job->x_zero_point, a + at - k);
        }
        at += count;
    }
}

static void mct_conv_fill_a(const void *job_, int32_t row, int32_t rows, int32_t k, int32_t depth,
                            int32_t stride, int16_t *a) {
    const mct_conv_job *job = job_;
    const mct_window *win = job->window;
    const int pointwise = win->kernel_h * win->kernel_w * win->stride_h * win->stride_w == 1;
    if (pointwise && depth == job->x->c && stride == depth) {
        mct_widen(job->xs + row * depth, rows * depth, job->x_zero_point, a);
        return;
    }
    for (int32_t r = 0; r < rows; r++) {
        const int32_t position = row + r;
        mct_conv_window(job, position / job->y->w, position % job->y->w, k, depth, a + r * stride);
    }
}

static void mct_conv_fill_b(const void *job_, int32_t k, int32_t depth, int32_t column,
                            int32_t columns, int16_t *b) {
    const mct_conv_job *job = job_;
    const int32_t w_row = job->window->kernel_h * job->window->kernel_w * job->x->c;
    for (int32_t c = 0; c < columns; c++) {
        const int8_t *ws = job->w + (column + c) * w_row + k;
        int16_t *out = b + 2 * c;
        for (int32_t d = 0; d + 1 < depth; d += 2) {
            out[d * MCT_TILE_COLUMNS] = ws[d];
            out[d * MCT_TILE_COLUMNS + 1] = ws[d + 1];
        }
        if (depth % 2 != 0) {
            out[(depth - 1) * MCT_TILE_COLUMNS] = ws[depth - 1];
        }
    }
}

/* The product of a convolution; the caller adds what takes the sums. */
static inline mct_product mct_conv_product(const mct_conv_job *job) {
    return (mct_product){
        .rows = job->y->h * job->y->w,
        .columns = job->y->c,
        .depth = job->window->kernel_h * job->window->kernel_w * job->x->c,
        .job = job,
        .fill_a = mct_conv_fill_a,
        .fill_b = mct_conv_fill_b,
    };
}

#endif
