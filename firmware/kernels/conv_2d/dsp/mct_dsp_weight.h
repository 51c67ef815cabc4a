/* SPDX-License-Identifier: Apache-2.0 */
/* The weight gradient of a convolution: sums[o][tap][i] over positions of dy[o] * (x[i] - zero_point),
 * four input channels and up to MCT_WEIGHT_ROWS output channels at a time. */
#ifndef MCT_DSP_WEIGHT_H
#define MCT_DSP_WEIGHT_H

#include "mct_dsp_weight_image.h"

/* Positions at a time, a multiple of 4, of MCT_WEIGHT_ROWS channels; or twice as many of half of the channels,
 * where all positions then fit, so that the gradient is turned once and not for all columns anew. */
#define MCT_WEIGHT_DEPTH 64

typedef struct {
    mct_weight_image image;
    const int8_t *dy_values;
    int32_t end, columns;          /* of the group: its last output channel + 1, its inputs */
    int32_t held_o, held_position; /* what is in `turned`; -1: nothing */
    uint32_t
        silent; /* a bit for each output channel in hand that has no gradient at any position */
    int32_t rows, depth; /* at a time */
    uint32_t panel[MCT_WEIGHT_DEPTH * 2 * 2];
    int8_t turned[MCT_WEIGHT_ROWS * MCT_WEIGHT_DEPTH]; /* [rows][depth]: dy, by position */
} mct_weight_job;

/* The sums of `columns` neighbouring weights of output channel o, the first of them number `first`. */
typedef void mct_weight_take(void *result, int32_t o, int32_t first, int32_t columns,
                             const mct_sums4 *sums);

/* All sums of output channel o are 0. */
typedef void mct_weight_take_nothing(void *result, int32_t o);

/* Four positions of four output channels. */
static inline void mct_weight_turn4(uint32_t a, uint32_t b, uint32_t c, uint32_t d, int32_t pitch,
                                    int8_t *to) {
    const uint32_t bytes = 0x00FF00FFu;
    const uint32_t ab_even = (a & bytes) | (b & bytes) << 8;
    const uint32_t cd_even = (c & bytes) | (d & bytes) << 8;
    const uint32_t ab_odd = (a >> 8 & bytes) | (b & ~bytes);
    const uint32_t cd_odd = (c >> 8 & bytes) | (d & ~bytes);
    const uint32_t turned[4] = {mct_lows(ab_even, cd_even), mct_lows(ab_odd, cd_odd),
                                mct_highs(ab_even, cd_even), mct_highs(ab_odd, cd_odd)};
    for (int32_t i = 0; i < 4; i++, to += pitch) {
        __builtin_memcpy(to, &turned[i], 4);
    }
}

static inline void mct_weight_turn(mct_weight_job *job, int32_t o, int32_t rows, int32_t position,
                                   int32_t depth) {
    if (job->held_o == o && job->held_position == position) {
        return;
    }
    job->held_o = o;
    job->held_position = position;
    const int32_t step = job->image.dy->c;
    for (int32_t r = 0; r < rows; r += 4) {
        const int8_t *from = job->dy_values + position * step + o + r;
        const int32_t columns = mct_min(rows - r, 4);
        int8_t *to = job->turned + r * job->depth;
        int32_t k = 0;
        for (; columns == 4 && k + 4 <= depth; k += 4, from += 4 * step) {
            mct_weight_turn4(mct_load32(from), mct_load32(from + step), mct_load32(from + 2 * step),
                             mct_load32(from + 3 * step), job->depth, to + k);
        }
        for (; k < depth; k += 4) {
            uint32_t words[4] = {0};
            for (int32_t i = 0; i < 4 && k + i < depth; i++) {
                words[i] = mct_weight_word(from, columns);
                from += step;
            }
            mct_weight_turn4(words[0], words[1], words[2], words[3], job->depth, to + k);
        }
    }
}

/* The bits of `silent` for the channels o … o + rows - 1. */
static inline uint32_t mct_weight_silent(const mct_weight_job *job, int32_t o, int32_t rows) {
    const int32_t positions = job->image.dy->h * job->image.dy->w, step = job->image.dy->c;
    uint32_t silent = 0;
    for (int32_t r = 0; r < rows; r += 4) {
        const int8_t *dy = job->dy_values + o + r;
        const int32_t columns = mct_min(rows - r, 4);
        uint32_t seen = 0;
        for (int32_t n = 0; n < positions; n++, dy += step) {
            seen |= mct_weight_word(dy, columns);
        }
        for (int32_t c = 0; c < columns; c++) {
            silent |= (uint32_t)((seen >> (8 * c) & 255u) == 0) << (r + c);
        }
    }
    return silent;
}

/* What the panel adds to the sums of the rows that are not silent, or what these begin with. */
static void mct_weight_add(const mct_weight_job *job, int32_t rows, int32_t depth, int is_first,
                           mct_sums4 *sums) {
    const int32_t quads = (depth + 3) / 4;
    for (int32_t r = 0; r < rows;) {
        int32_t count = 0;
        while (r + count < rows && (job->silent >> (r + count) & 1u) == 0) {
            count++;
        }
        const mct_tile_positions tile = {
            .panel = job->panel,
            .quads = quads,
            .stride = job->depth - 4 * quads,
            .count = count,
            .stream = job->turned + r * job->depth,
            .sums = sums[r].lane,
        };
        if (count > 0 && is_first) {
            mct_tile_positions_start(&tile);
        } else if (count > 0) {
            mct_tile_positions_add(&tile);
        }
        r += count + 1; /* what ended the run is silent */
    }
}

static inline __attribute__((always_inline)) void mct_weight_columns(mct_weight_job *job, int32_t o,
                                                                     int32_t tap, int32_t i,
                                                                     mct_weight_take *take,
                                                                     void *result) {
    mct_sums4 sums[MCT_WEIGHT_ROWS];
    const int32_t positions = job->image.dy->h * job->image.dy->w;
    const int32_t taps = job->image.window->kernel_h * job->image.window->kernel_w;
    const int32_t rows = mct_min(job->end - o, job->rows);
    const int32_t columns = mct_min(job->columns - i, 4);
    const int32_t last = (positions - 1) / job->depth * job->depth;
    const int backwards = job->held_o == o && job->held_position == last; /* turned already */
    for (int32_t done = 0; done <= last; done += job->depth) {
        const int32_t position = backwards ? last - done : done;
        const int32_t depth = mct_min(positions - position, job->depth);
        mct_weight_turn(job, o, rows, position, depth);
        mct_weight_panel(&job->image, tap, i, columns, position, depth, job->panel);
        mct_weight_add(job, rows, depth, done == 0, sums);
    }
    for (int32_t r = 0; r < rows; r++) {
        if ((job->silent >> r & 1u) != 0) {
            continue;
        }
        take(result, o + r, ((o + r) * taps + tap) * job->columns + i, columns, &sums[r]);
    }
}

/* The channels o … of a group, job->rows or as many as it has left. */
static inline __attribute__((always_inline)) void
mct_weight_rows(mct_weight_job *job, int32_t o, mct_weight_take *take,
                mct_weight_take_nothing *take_nothing, void *result) {
    const int32_t rows = mct_min(job->end - o, job->rows);
    job->silent = take_nothing == NULL ? 0 : mct_weight_silent(job, o, rows);
    for (int32_t r = 0; r < rows && take_nothing != NULL; r++) {
        if ((job->silent >> r & 1u) != 0) {
            take_nothing(result, o + r);
        }
    }
    if (job->silent == (1u << rows) - 1u) {
        return;
    }
    for (int32_t tap = 0; tap < job->image.window->kernel_h * job->image.window->kernel_w; tap++) {
        for (int32_t i = 0; i < job->columns; i += 4) {
            mct_weight_columns(job, o, tap, i, take, result);
        }
    }
}

/* groups: each reads channels of x of its own. take_nothing: gets the channels without a gradient, or
 * NULL: `take` gets them. */
static inline __attribute__((always_inline)) void
mct_weight_run(const mct_shape *x, const mct_shape *dy, const mct_window *window, int32_t groups,
               int32_t zero_point, const int8_t *dy_values, const int8_t *x_values,
               mct_weight_take *take, mct_weight_take_nothing *take_nothing, void *result) {
    mct_weight_job job;
    job.image = (mct_weight_image){x, dy, window, zero_point, x_values};
    job.dy_values = dy_values;
    job.columns = x->c / groups;
    const int32_t positions = dy->h * dy->w;
    const int twice = positions > MCT_WEIGHT_DEPTH && positions <= 2 * MCT_WEIGHT_DEPTH;
    job.depth = twice ? 2 * MCT_WEIGHT_DEPTH : MCT_WEIGHT_DEPTH;
    job.rows = twice ? MCT_WEIGHT_ROWS / 2 : MCT_WEIGHT_ROWS;
    job.held_o = -1;
    job.held_position = -1;
    for (int32_t group = 0; group < groups; group++) {
        job.image.values = x_values + group * job.columns;
        job.end = dy->c / groups * (group + 1);
        for (int32_t o = job.end - dy->c / groups; o < job.end; o += job.rows) {
            mct_weight_rows(&job, o, take, take_nothing, result);
        }
    }
}

#endif
