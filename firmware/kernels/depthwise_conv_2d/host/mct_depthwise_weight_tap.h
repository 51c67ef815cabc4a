/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of one tap of a depthwise convolution's weight gradient, for some channels at once. */
#ifndef MCT_DEPTHWISE_WEIGHT_TAP_H
#define MCT_DEPTHWISE_WEIGHT_TAP_H

#include "mct_fixedpoint.h"
#include "mct_simd.h"
#include "mct_threads.h"

/* What a product takes that loads both of its factors, beside those of a matrix. */
#define MCT_PRODUCTS_OF_A_LANE 8

/* Which channels of x and of dy a sum j pairs: columns[j] and channels[j]; NULL means j itself. */
typedef struct {
    const mct_shape *x_shape, *dy_shape;
    const mct_window *window;
    int32_t x_zero_point;
    int32_t count;
    const int16_t *x_columns, *channels;
    const int8_t *dy, *x;
} mct_depthwise_weight_job;

/* `lanes` int8 from `from` on, or those that a table names. */
static inline mct_v32 mct_v_gather_s8(const int8_t *from, const int16_t *table, int32_t j,
                                      int32_t lanes) {
    if (table == NULL) {
        return mct_v_load_s8(from + j, lanes);
    }
    int8_t found[MCT_LANES];
    for (int32_t l = 0; l < lanes; l++) {
        found[l] = from[table[j + l]];
    }
    return mct_v_load_s8(found, lanes);
}

typedef struct {
    const mct_depthwise_weight_job *job;
    int32_t tap;
    int32_t *sums;
} mct_depthwise_weight_sums;

/* The sums of `lanes` channels from j on. */
static inline mct_v32 mct_depthwise_weight_lanes(const mct_depthwise_weight_job *job, int32_t tap,
                                                 int32_t j, int32_t lanes) {
    const mct_window *win = job->window;
    const mct_shape *x = job->x_shape;
    const mct_shape *dy = job->dy_shape;
    const int32_t ky = tap / win->kernel_w * win->dilation_h - win->pad_top;
    const int32_t kx = tap % win->kernel_w * win->dilation_w - win->pad_left;
    mct_v32 sum = {0};
    for (int32_t row = 0; row < dy->h; row++) {
        const int32_t iy = row * win->stride_h + ky;
        for (int32_t column = 0; column < dy->w && iy >= 0 && iy < x->h; column++) {
            const int32_t ix = column * win->stride_w + kx;
            if (ix >= 0 && ix < x->w) {
                const int8_t *xs = job->x + (iy * x->w + ix) * x->c;
                const int8_t *ds = job->dy + (row * dy->w + column) * dy->c;
                const mct_v32 seen = mct_v_gather_s8(xs, job->x_columns, j, lanes);
                sum = mct_v_add_product(sum, seen - job->x_zero_point,
                                        mct_v_gather_s8(ds, job->channels, j, lanes));
            }
        }
    }
    return sum;
}

static inline void mct_depthwise_weight_part(const void *sums_, int32_t part, int32_t parts) {
    const mct_depthwise_weight_sums *sums = sums_;
    const int32_t count = sums->job->count;
    const int32_t end = mct_part_begin(count, part + 1, parts, MCT_LANES);
    for (int32_t j = mct_part_begin(count, part, parts, MCT_LANES); j < end; j += MCT_LANES) {
        const int32_t lanes = mct_min(end - j, MCT_LANES);
        const mct_v32 sum = mct_depthwise_weight_lanes(sums->job, sums->tap, j, lanes);
        memcpy(sums->sums + j, &sum, (size_t)lanes * sizeof *sums->sums);
    }
}

/* sums[j] for j < count */
static inline void mct_depthwise_weight_tap(const mct_depthwise_weight_job *job, int32_t tap,
                                            int32_t *sums) {
    const mct_depthwise_weight_sums of_tap = {job, tap, sums};
    const int64_t products = (int64_t)job->count * job->dy_shape->h * job->dy_shape->w;
    mct_threads_run(mct_depthwise_weight_part, &of_tap,
                    mct_threads_for(products * MCT_PRODUCTS_OF_A_LANE));
}

#endif
