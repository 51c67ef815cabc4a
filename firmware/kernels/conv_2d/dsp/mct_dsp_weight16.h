/* SPDX-License-Identifier: Apache-2.0 */
/* mct_dsp_weight.h for gradients of int16: sums[o][tap][i] over positions of dy[o] * (x[i] - zero_point). */
#ifndef MCT_DSP_WEIGHT16_H
#define MCT_DSP_WEIGHT16_H

#include "mct_dsp_pairs.h"
#include "mct_dsp_weight_image.h"

/* Output channels and positions at a time; or MCT_WEIGHT_ROWS channels, which are twice as many, of half of the
 * positions, where all positions then fit. */
#define MCT_WEIGHT16_ROWS (MCT_WEIGHT_ROWS / 2)
#define MCT_WEIGHT16_DEPTH 64
/* Positions whose sum int32 holds, a multiple of the depth: 256 * 2^15 * 255 < 2^31. */
#define MCT_WEIGHT16_NARROW 256

/* The sums of `columns` neighbouring weights of output channel o, the first of them number `first`: narrow,
 * or wide, and the other one NULL. */
typedef void mct_weight16_take(void *result, int32_t o, int32_t first, int32_t columns,
                               const int32_t *narrow, const int64_t *wide);
/* All sums of output channel o are 0. */
typedef void mct_weight16_take_nothing(void *result, int32_t o);

typedef struct {
    mct_weight_image image;
    const int16_t *dy;
    int32_t outs;
    mct_weight16_take *take;
    mct_weight16_take_nothing *take_nothing; /* NULL: `take` gets these channels, too */
    void *result;
    int32_t rows, depth;           /* at a time */
    int32_t held_o, held_position; /* what is in `turned`; -1: nothing */
    uint32_t silent;               /* a bit for each channel in hand that has no gradient */
    uint32_t panel[MCT_WEIGHT16_DEPTH * 2];
    /* [rows][depth]: dy; of four positions in the order of the panel, 0, 2, 1, 3 */
    int16_t turned[MCT_WEIGHT16_ROWS * MCT_WEIGHT16_DEPTH];
    mct_sums4 sums[MCT_WEIGHT_ROWS];
    int64_t wide[MCT_WEIGHT16_ROWS][4];
} mct_weight16_job;

/* Two neighbouring channels of a position, or one and a zero. */
static inline uint32_t mct_weight16_word(const int16_t *dy, int32_t columns) {
    return columns >= 2 ? mct_load32(dy) : (uint16_t)*dy;
}

static void mct_weight16_turn(mct_weight16_job *job, int32_t o, int32_t rows, int32_t position,
                              int32_t depth) {
    if (job->held_o == o && job->held_position == position) {
        return;
    }
    job->held_o = o;
    job->held_position = position;
    const int32_t step = job->outs;
    for (int32_t r = 0; r < rows; r += 2) {
        const int16_t *from = job->dy + position * step + o + r;
        int16_t *to = job->turned + r * job->depth;
        for (int32_t k = 0; k < depth; k += 4, to += 4) {
            uint32_t words[4] = {0};
            for (int32_t i = 0; i < 4 && k + i < depth; i++, from += step) {
                words[i] = mct_weight16_word(from, rows - r);
            }
            const uint32_t first[2] = {mct_lows(words[0], words[2]), mct_lows(words[1], words[3])};
            const uint32_t second[2] = {mct_highs(words[0], words[2]),
                                        mct_highs(words[1], words[3])};
            __builtin_memcpy(to, first, sizeof first);
            __builtin_memcpy(to + job->depth, second, sizeof second);
        }
    }
}

/* The bits of `silent` for the channels o … o + rows - 1. */
static uint32_t mct_weight16_silent(const mct_weight16_job *job, int32_t o, int32_t rows) {
    const int32_t positions = job->image.dy->h * job->image.dy->w;
    uint32_t silent = 0;
    for (int32_t r = 0; r < rows; r += 2) {
        const int16_t *dy = job->dy + o + r;
        uint32_t seen = rows - r >= 2 ? 0 : 0xFFFF0000u;
        for (int32_t n = 0; n < positions; n++, dy += job->outs) {
            seen |= mct_weight16_word(dy, rows - r);
        }
        silent |= (uint32_t)((seen & 0xFFFFu) == 0) << r | (uint32_t)(seen >> 16 == 0) << (r + 1);
    }
    return silent;
}

/* What the panel adds to the sums of the rows that are not silent. */
static void mct_weight16_add(mct_weight16_job *job, int32_t rows, int32_t depth) {
    const int32_t quads = (depth + 3) / 4;
    for (int32_t r = 0; r < rows;) {
        int32_t count = 0;
        while (r + count < rows && (job->silent >> (r + count) & 1u) == 0) {
            count++;
        }
        const mct_tile_pairs tile = {
            .panel = job->panel,
            .quads = quads,
            .stride = 2 * (job->depth - 4 * quads),
            .count = count,
            .stream = job->turned + r * job->depth,
            .sums = job->sums[r].lane,
        };
        if (count > 0) {
            mct_tile_pairs_run(&tile);
        }
        r += count + 1; /* what ended the run is silent */
    }
}

static void mct_weight16_clear(mct_weight16_job *job, int32_t rows) {
    for (int32_t i = 0; i < 4 * rows; i++) {
        job->sums[i / 4].lane[i % 4] = 0;
        mct_keep_loop();
    }
}

/* Adds the sums to the wide ones, or starts these, and clears them. */
static void mct_weight16_widen(mct_weight16_job *job, int32_t rows, int is_first) {
    for (int32_t i = 0; i < 4 * rows; i++) {
        const int64_t before = is_first ? 0 : job->wide[i / 4][i % 4];
        job->wide[i / 4][i % 4] = before + job->sums[i / 4].lane[i % 4];
    }
    mct_weight16_clear(job, rows);
}

/* Up to four channels of x from i on, through a tap. */
static void mct_weight16_columns(mct_weight16_job *job, int32_t o, int32_t tap, int32_t i) {
    const int32_t positions = job->image.dy->h * job->image.dy->w, ins = job->image.x->c;
    const int32_t taps = job->image.window->kernel_h * job->image.window->kernel_w;
    const int32_t rows = mct_min(job->outs - o, job->rows), columns = mct_min(ins - i, 4);
    const int32_t last = (positions - 1) / job->depth * job->depth;
    const int backwards = job->held_o == o && job->held_position == last; /* turned already */
    const int is_wide = positions > MCT_WEIGHT16_NARROW;
    mct_weight16_clear(job, rows);
    for (int32_t done = 0; done <= last; done += job->depth) {
        const int32_t position = backwards ? last - done : done;
        const int32_t depth = mct_min(positions - position, job->depth);
        mct_weight16_turn(job, o, rows, position, depth);
        mct_weight_panel(&job->image, tap, i, columns, position, depth, job->panel);
        mct_weight16_add(job, rows, depth);
        if (is_wide && (done == last || (done + job->depth) % MCT_WEIGHT16_NARROW == 0)) {
            mct_weight16_widen(job, rows, done < MCT_WEIGHT16_NARROW);
        }
    }
    for (int32_t r = 0; r < rows; r++) {
        if ((job->silent >> r & 1u) == 0) {
            job->take(job->result, o + r, ((o + r) * taps + tap) * ins + i, columns,
                      is_wide ? NULL : job->sums[r].lane, is_wide ? job->wide[r] : NULL);
        }
    }
}

/* The channels o …, job->rows or as many as there are left. */
static void mct_weight16_rows(mct_weight16_job *job, int32_t o) {
    const int32_t rows = mct_min(job->outs - o, job->rows);
    job->silent = job->take_nothing == NULL ? 0 : mct_weight16_silent(job, o, rows);
    for (int32_t r = 0; r < rows && job->take_nothing != NULL; r++) {
        if ((job->silent >> r & 1u) != 0) {
            job->take_nothing(job->result, o + r);
        }
    }
    if (job->silent == (1u << rows) - 1u) {
        return;
    }
    for (int32_t tap = 0; tap < job->image.window->kernel_h * job->image.window->kernel_w; tap++) {
        for (int32_t i = 0; i < job->image.x->c; i += 4) {
            mct_weight16_columns(job, o, tap, i);
        }
    }
}

/* take_nothing: gets the channels without a gradient, or NULL: `take` gets them. */
static void mct_weight16_run(mct_weight_image image, const int16_t *dy, mct_weight16_take *take,
                             mct_weight16_take_nothing *take_nothing, void *result) {
    mct_weight16_job job;
    job.image = image;
    job.dy = dy;
    job.outs = image.dy->c;
    job.take = take;
    job.take_nothing = take_nothing;
    job.result = result;
    const int few = 2 * image.dy->h * image.dy->w <= MCT_WEIGHT16_DEPTH;
    job.rows = few ? MCT_WEIGHT_ROWS : MCT_WEIGHT16_ROWS;
    job.depth = few ? MCT_WEIGHT16_DEPTH / 2 : MCT_WEIGHT16_DEPTH;
    job.held_o = -1;
    job.held_position = -1;
    for (int32_t o = 0; o < job.outs; o += job.rows) {
        mct_weight16_rows(&job, o);
    }
}

#endif
