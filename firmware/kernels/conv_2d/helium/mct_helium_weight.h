/* SPDX-License-Identifier: Apache-2.0 */
/* The weight gradient of a convolution: sums[o][tap][i] over positions of dy[o] * (x[i] - zero_point),
 * four input channels and MCT_WEIGHT_ROWS output channels at a time. Both are turned, so that the
 * positions of a channel lie next to each other. */
#ifndef MCT_HELIUM_WEIGHT_H
#define MCT_HELIUM_WEIGHT_H

#include "mct_fixedpoint.h"
#include "mct_helium.h"
#include "mct_window.h"

#define MCT_WEIGHT_ROWS 16
#define MCT_WEIGHT_DEPTH 64 /* positions at a time */

typedef struct {
    const mct_shape *x, *dy;
    const mct_window *window;
    int32_t zero_point;
    const int8_t *dy_values, *x_values;
    int32_t point;                    /* 1: the pixel i of dy is made of the pixel i of x */
    int32_t held_o, held_position;    /* what is in `turned`; -1: nothing */
    int8_t seen[4][MCT_WEIGHT_DEPTH]; /* x of an input channel, by position */
    int8_t turned[MCT_WEIGHT_ROWS][MCT_WEIGHT_DEPTH]; /* dy of an output channel, by position */
    int32_t starts[MCT_WEIGHT_ROWS]; /* what the sums lack: dy's sum times the zero point */
    int32_t sums[MCT_WEIGHT_ROWS][4];
} mct_weight_job;

/* The sums of `columns` neighbouring weights of output channel o, the first of them number `first`. */
typedef void mct_weight_take(void *result, int32_t o, int32_t first, int32_t columns,
                             const int32_t *sums);

static inline void mct_weight_turn(mct_weight_job *job, int32_t o, int32_t rows, int32_t position,
                                   int32_t depth) {
    if (job->held_o == o && job->held_position == position) {
        return;
    }
    job->held_o = o;
    job->held_position = position;
    const mct_helium_block block = {
        .to = job->turned[0],
        .to_column = 1,
        .to_row = MCT_WEIGHT_DEPTH,
        .from = job->dy_values + position * job->dy->c + o,
        .from_column = job->dy->c,
        .from_row = 1,
        .rows = rows,
        .columns = depth,
    };
    mct_helium_strew(&block);
    for (int32_t r = 0; r < rows; r++) {
        job->starts[r] = -job->zero_point * mct_helium_sum(job->turned[r], depth);
    }
}

/* What the positions see through a tap in `columns` channels from i on; of a channel that is missing,
 * the last. */
static inline void mct_weight_see(mct_weight_job *job, int32_t tap, int32_t i, int32_t columns,
                                  int32_t position, int32_t depth) {
    const int32_t channels = job->x->c;
    if (job->point) {
        const mct_helium_block block = {
            .to = job->seen[0],
            .to_column = 1,
            .to_row = MCT_WEIGHT_DEPTH,
            .from = job->x_values + position * channels + i,
            .from_column = channels,
            .from_row = 1,
            .rows = columns,
            .columns = depth,
        };
        mct_helium_strew(&block);
        return;
    }
    const int8_t zero_point = (int8_t)job->zero_point;
    for (int32_t k = 0; k < depth; k++) {
        const int32_t row = (position + k) / job->dy->w, column = (position + k) % job->dy->w;
        const int32_t at = mct_window_tap_2d(job->window, job->x, row, column, tap);
        for (int32_t l = 0; l < columns; l++) {
            job->seen[l][k] = at >= 0 ? job->x_values[at * channels + i + l] : zero_point;
        }
    }
}

static inline __attribute__((always_inline)) void mct_weight_columns(mct_weight_job *job, int32_t o,
                                                                     int32_t tap, int32_t i,
                                                                     mct_weight_take *take,
                                                                     void *result) {
    const int32_t positions = job->dy->h * job->dy->w, channels = job->x->c;
    const int32_t taps = job->window->kernel_h * job->window->kernel_w;
    const int32_t rows = mct_min(job->dy->c - o, MCT_WEIGHT_ROWS);
    const int32_t columns = mct_min(channels - i, 4);
    const int32_t last = columns - 1;
    mct_helium_rows seen = {
        .w0 = job->seen[0],
        .w1 = job->seen[mct_min(1, last)],
        .w2 = job->seen[mct_min(2, last)],
        .w3 = job->seen[last],
    };
    for (int32_t position = 0; position < positions; position += MCT_WEIGHT_DEPTH) {
        seen.depth = mct_min(positions - position, MCT_WEIGHT_DEPTH);
        mct_weight_turn(job, o, rows, position, seen.depth);
        mct_weight_see(job, tap, i, columns, position, seen.depth);
        for (int32_t r = 0; r < rows; r++) {
            int32_t *sums = job->sums[r];
            const int32x4_t start = vdupq_n_s32(job->starts[r]);
            const int32x4_t before = position == 0 ? start : vaddq_s32(vldrwq_s32(sums), start);
            vstrwq_s32(sums, vaddq_s32(before, mct_helium_dot4(&seen, job->turned[r])));
        }
    }
    for (int32_t r = 0; r < rows; r++) {
        take(result, o + r, ((o + r) * taps + tap) * channels + i, columns, job->sums[r]);
    }
}

static inline __attribute__((always_inline)) void
mct_weight_run(const mct_shape *x, const mct_shape *dy, const mct_window *window,
               int32_t zero_point, const int8_t *dy_values, const int8_t *x_values,
               mct_weight_take *take, void *result) {
    mct_weight_job job;
    job.x = x;
    job.dy = dy;
    job.window = window;
    job.zero_point = zero_point;
    job.dy_values = dy_values;
    job.x_values = x_values;
    job.held_o = -1;
    job.point = window->kernel_h * window->kernel_w == 1 && window->stride_h == 1 &&
                window->stride_w == 1 && window->pad_top == 0 && window->pad_left == 0 &&
                x->h == dy->h && x->w == dy->w;
    for (int32_t o = 0; o < dy->c; o += MCT_WEIGHT_ROWS) {
        for (int32_t tap = 0; tap < window->kernel_h * window->kernel_w; tap++) {
            for (int32_t i = 0; i < x->c; i += 4) {
                mct_weight_columns(&job, o, tap, i, take, result);
            }
        }
    }
}

#endif
