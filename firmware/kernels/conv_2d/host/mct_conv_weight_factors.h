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

/* The channels of x that a position of dy sees through the tap; NULL outside. */
static const int8_t *mct_weight_seen(const mct_weight_job *job, int32_t position) {
    const int32_t w = job->dy_shape->w;
    const int32_t at =
        mct_window_tap_2d(job->window, job->x_shape, position / w, position % w, job->tap);
    return at < 0 ? NULL : job->x + at * job->x_shape->c;
}

static void mct_weight_fill_b(const void *job_, int32_t k, int32_t depth, int32_t column,
                              int32_t columns, int8_t *b) {
    const mct_weight_job *job = job_;
    for (int32_t d = 0; d < depth; d += 4) {
        const int8_t *lines[4];
        for (int32_t i = 0; i < 4; i++) {
            const int8_t *seen = d + i < depth ? mct_weight_seen(job, k + d + i) : NULL;
            lines[i] = seen != NULL ? seen + column : NULL;
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
