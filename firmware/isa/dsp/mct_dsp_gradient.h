/* SPDX-License-Identifier: Apache-2.0 */
/* mct_gradient_write_s8 for four channels at a time, without 64-bit shifts.
 *
 * fraction = sum * mult_q31 / 2^bits, rounded down, is the high half of (sum * 2^(32 - bits)) *
 * mult_q31 if that factor fits int32. If it does not, the fraction is far beyond int8 (a multiplier
 * is at least 2^30, or 0) and rare: it goes the portable way. */
#ifndef MCT_DSP_GRADIENT_H
#define MCT_DSP_GRADIENT_H

#include "mct_dsp.h"
#include "mct_fixedpoint.h"
#include "mct_gradient.h"

/* A step of the counter of mct_random16. */
#define MCT_DSP_GOLDEN UINT32_C(0x9E3779B9)

typedef struct {
    int32_t mult_q31;
    int32_t left, right; /* 32 - bits, or 0; bits - 32, or 0 */
    int32_t bits;
} mct_factor;

static inline mct_factor mct_factor_of(const mct_gradient_stage *stage, int32_t change, int32_t c) {
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t bits = mct_shift_right(stage->shift[m] + change) - MCT_FRACTION_BITS;
    return (mct_factor){
        .mult_q31 = stage->mult_q31[m],
        .left = mct_clamp(32 - bits, 0, 31),
        .right = mct_max(bits - 32, 0),
        .bits = bits,
    };
}

/* Of the channels c … c + count - 1; what comes after is the last one's. */
static inline void mct_factors_of(const mct_gradient_writer *writer, int32_t c, int32_t count,
                                  mct_factor factors[4]) {
    for (int32_t l = 0; l < 4; l++) {
        factors[l] =
            mct_factor_of(writer->stage, writer->exponent_change, c + mct_min(l, count - 1));
    }
}

/* What a node writes its gradient with. */
typedef struct {
    mct_gradient_writer *writer;
    uint32_t key;
    uint32_t seen; /* or of the magnitudes that took the short way */
    int8_t *dx;
} mct_dsp_writer;

static inline mct_dsp_writer mct_dsp_writer_of(mct_gradient_writer *writer, int8_t *dx) {
    return (mct_dsp_writer){writer, writer->key, 0, dx};
}

static inline void mct_dsp_writer_end(mct_dsp_writer *to, int32_t bits) {
    to->writer->seen |= to->seen;
    mct_gradient_end(to->writer, bits);
}

static inline int32_t mct_dsp_fraction(const mct_factor *factor, int32_t sum) {
    const int32_t moved = (int32_t)((uint32_t)sum << factor->left);
    return mct_high_product(moved, factor->mult_q31) >> factor->right;
}

/* -1 where the element i passes, else 0. */
static inline int32_t mct_dsp_passes(const uint8_t *mask, int32_t i) {
    return mask == NULL ? -1 : -((mask[i >> 3] >> (i & 7)) & 1);
}

/* A fraction, rounded, in int8's range. seen: gets its magnitude. counter: of the random bits. */
static inline int32_t mct_dsp_round(int32_t fraction, uint32_t counter, uint32_t *seen) {
    *seen |= (uint32_t)(fraction ^ (fraction >> 31));
    return mct_whole_saturate8(fraction + (int32_t)(mct_hash32(counter) >> 16));
}

/* Sums of neighbouring channels: channel l at position n is from[l * lane + n * position]. */
typedef struct {
    const int32_t *from;
    int32_t lane, position;
} mct_dsp_sums;

/* The channels c … c + count - 1 at `positions` positions, the first of which is the element `first`; the
 * others follow `step` elements after each other. */
void mct_dsp_write_sums(mct_dsp_writer *to, const mct_factor factors[4], mct_dsp_sums sums,
                        int32_t c, int32_t count, int32_t first, int32_t step, int32_t positions);

static inline void mct_dsp_write_columns(mct_dsp_writer *to, const mct_factor *factors,
                                         const mct_sums4 *sums, int32_t c, int32_t count,
                                         int32_t first, int32_t step, int32_t positions) {
    const mct_dsp_sums of = {sums->lane, 1, 4};
    mct_dsp_write_sums(to, factors, of, c, count, first, step, positions);
}

/* Four sums of each position to dx, for factors without a shift to the right and nothing to add. Fields are read by their
 * offset: their order is fixed. */
typedef struct {
    const int32_t *sums;
    int32_t lane, position; /* from one to the next, in words */
    int8_t *dx;
    const uint8_t *mask; /* or NULL */
    int32_t first, step; /* elements: multiples of 4 if there is a mask */
    int32_t positions;   /* 1 or more */
    uint32_t counter,
        counts; /* of the random bits: the first element's, and from a position to the next */
    const mct_factor *factors;
    uint32_t seen;       /* set: or of the fractions' magnitudes, what is added included */
    uint32_t magnitudes; /* set: or of the sums' */
    const int8_t *addend;
    const mct_factor *addend_factors;
} mct_tile_gradient;

void mct_tile_gradient_run(mct_tile_gradient *t);

/* The same for any shifts, plus an addend of dx's shape, whose factors shift to the left by 24 or less: of
 * 127 at most, it leaves room in int32 beside a fraction below 2^30 and the random bits. */
void mct_tile_gradient_add(mct_tile_gradient *t);

#endif
