/* int32 sums to int8 gradients, a tile at a time: the vector form of mct_gradient_write_s8. */
#ifndef MCT_GRADIENT_TILE_H
#define MCT_GRADIENT_TILE_H

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_simd.h"
#include "mct_threads.h"
#include "mct_tile.h"

/* A factor per lane, for the even and the odd lanes apart, as products are 64 bits wide. The shift
 * to the right leaves MCT_FRACTION_BITS behind the point. */
typedef struct {
    mct_v32 mult;
    mct_v64 right_even, right_odd;
    mct_v32 left, right; /* for sums that are small */
    int may_be_small;
} mct_v_factor;

#define MCT_ALL_LANES ((UINT32_C(1) << MCT_LANES) - 1u)

/* mult_q31 * 2^(shift - 31), the shift held where mct_shift_right holds it. */
static inline mct_v_factor mct_v_factor_of(mct_v32 mult, mct_v32 shift) {
    const mct_v32 right = mct_v_min(mct_v_max(31 - shift, mct_v_all(MCT_MIN_SHIFT_RIGHT)),
                                    mct_v_all(MCT_MAX_SHIFT_RIGHT));
    const mct_v32 bits = right - MCT_FRACTION_BITS;
    return (mct_v_factor){
        .mult = mult,
        .right_even = (mct_v64)mct_v_even(bits),
        .right_odd = (mct_v64)mct_v_odd(bits),
        .left = mct_v_min(mct_v_max(32 - bits, mct_v_all(0)), mct_v_all(31)),
        .right = mct_v_max(bits - 32, mct_v_all(0)),
        .may_be_small = mct_v_bits(bits > 0) == MCT_ALL_LANES,
    };
}

/* Whether all sums * 2^left fit int32. Then the highest 32 bits of their products are the fractions,
 * which spares shifts and comparisons of 64 bits, as mct_small_delta does. */
static inline int mct_v_is_small(const mct_v_factor *f, mct_v32 sums) {
    const mct_v32 moved = (mct_v32)((mct_vu32)sums << (mct_vu32)f->left);
    return f->may_be_small && mct_v_bits((moved >> f->left) == sums) == MCT_ALL_LANES;
}

/* mct_scale_to_fraction of small sums: less than 2^30. */
static inline mct_v32 mct_v_small_fraction(const mct_v_factor *f, mct_v32 sums) {
    const mct_v32 moved = (mct_v32)((mct_vu32)sums << (mct_vu32)f->left);
    return mct_v_highest(moved, f->mult) >> f->right;
}

static inline mct_v32 mct_v_round_small(mct_v32 fraction, mct_v32 random, int32_t limit) {
    const mct_v32 rounded = (fraction + random) >> MCT_FRACTION_BITS;
    return mct_v_min(mct_v_max(rounded, mct_v_all(-limit)), mct_v_all(limit));
}

/* Those of the channels c … c + count - 1 of a stage. */
static inline mct_v_factor mct_v_stage_factor(const mct_gradient_stage *stage, int32_t change,
                                              int32_t c, int32_t count) {
    if (!stage->per_channel) {
        return mct_v_factor_of(mct_v_all(stage->mult_q31[0]), mct_v_all(stage->shift[0] + change));
    }
    return mct_v_factor_of(mct_v_load_part(stage->mult_q31 + c, count),
                           mct_v_load_s8(stage->shift + c, count) + change);
}

/* int64 lanes with MCT_FRACTION_BITS behind the point. */
typedef struct {
    mct_v64 even, odd;
} mct_v_fraction;

/* mct_scale_to_fraction */
static inline mct_v_fraction mct_v_scale_to_fraction(const mct_v_factor *f, mct_v32 sums) {
    const mct_v64 even = mct_v_mul_even(sums, f->mult);
    const mct_v64 odd = mct_v_mul_even(mct_v_odd(sums), mct_v_odd(f->mult));
    return (mct_v_fraction){
        .even = mct_v_shift_right64(even, f->right_even),
        .odd = mct_v_shift_right64(odd, f->right_odd),
    };
}

/* Rounded stochastically, clamped to ±limit < 2^31. */
static inline mct_v32 mct_v_round_fraction(mct_v_fraction f, mct_v32 random, int64_t limit) {
    const mct_v64 bits = MCT_FRACTION_BITS - (mct_v64){0};
    const mct_v64 even = mct_v_shift_right64(f.even + (mct_v64)mct_v_even(random), bits);
    const mct_v64 odd = mct_v_shift_right64(f.odd + (mct_v64)mct_v_odd(random), bits);
    return mct_v_interleave(mct_v_clamp64(even, -limit, limit), mct_v_clamp64(odd, -limit, limit));
}

/* -1 in the first `count` lanes whose element, first …, passes the mask; NULL: all pass. */
static inline mct_v32 mct_v_passing(const uint8_t *mask, int32_t first, int32_t count) {
    uint32_t bits = UINT32_MAX;
    if (mask != NULL) {
        bits = 0;
        for (int32_t byte = first >> 3; byte <= (first + count - 1) >> 3; byte++) {
            bits |= (uint32_t)mask[byte] << (8 * (byte - (first >> 3)));
        }
        bits >>= first & 7;
    }
    const mct_vu32 number = mct_v_count(0);
    const mct_v32 used = (mct_v32)(number < (uint32_t)count);
    const mct_vu32 own = (mct_vu32)mct_v_all((int32_t)bits) >> number;
    return -(mct_v32)(own & 1u) & used;
}

/* A gradient in progress: dx[position][channel]. */
typedef struct {
    mct_gradient_writer *writer;
    int32_t channels;
    int8_t *dx;
} mct_gradients;

/* A vector of channels of a tile; returns what its elements need. */
static inline mct_v64 mct_gradient_lanes(const mct_gradients *to, const mct_tile *tile, int32_t c) {
    const mct_gradient_writer *writer = to->writer;
    const int8_t *addend = writer->addend;
    const int32_t channel = tile->column + c;
    const int32_t lanes = mct_min(tile->columns - c, MCT_LANES);
    const mct_v_factor factor =
        mct_v_stage_factor(writer->stage, writer->exponent_change, channel, lanes);
    mct_v_factor addend_factor = factor;
    if (addend != NULL) {
        addend_factor =
            mct_v_stage_factor(writer->addend_stage, writer->addend_change, channel, lanes);
    }
    mct_v64 seen = {0};
    mct_v32 seen_small = {0};
    for (int32_t r = 0; r < tile->rows; r++) {
        const int32_t i = (tile->row + r) * to->channels + channel;
        const mct_v32 passing = mct_v_passing(writer->mask, i, lanes);
        const mct_v32 sum = mct_v_load(tile->sums + r * tile->stride + c) & passing;
        const mct_v32 random = mct_v_random16(writer->key, mct_v_count(i));
        if (addend == NULL && mct_v_is_small(&factor, sum)) {
            const mct_v32 small = mct_v_small_fraction(&factor, sum);
            seen_small |= small ^ (small < 0);
            mct_v_store_s8(to->dx + i, mct_v_round_small(small, random, 127), lanes);
            continue;
        }
        mct_v_fraction f = mct_v_scale_to_fraction(&factor, sum);
        if (addend != NULL) {
            const mct_v32 added = mct_v_load_s8(addend + i, lanes);
            const mct_v_fraction g = mct_v_scale_to_fraction(&addend_factor, added & passing);
            f = (mct_v_fraction){f.even + g.even, f.odd + g.odd};
        }
        seen |= (f.even ^ (f.even < 0)) | (f.odd ^ (f.odd < 0));
        mct_v_store_s8(to->dx + i, mct_v_round_fraction(f, random, 127), lanes);
    }
    return seen | (mct_v64)mct_v_even(seen_small) | (mct_v64)mct_v_odd(seen_small);
}

/* A mct_take; result: mct_gradients. */
static inline void mct_take_gradients(void *result, const mct_tile *tile) {
    const mct_gradients *to = result;
    mct_v64 seen = {0};
    for (int32_t c = 0; c < tile->columns; c += MCT_LANES) {
        seen |= mct_gradient_lanes(to, tile, c);
    }
    uint64_t all = 0;
    for (uint32_t l = 0; l < MCT_LANES / 2; l++) {
        all |= (uint64_t)seen[l];
    }
    __atomic_fetch_or(&to->writer->seen, all, __ATOMIC_RELAXED); /* of any thread */
}

#define MCT_MAP_ROWS 32

typedef struct {
    const mct_gradients *to;
    int32_t positions;
    const int8_t *a;
} mct_gradient_map_job;

/* Positions in multiples of 8: their masks share no byte. */
static inline void mct_gradient_map_part(const void *job_, int32_t part, int32_t parts) {
    const mct_gradient_map_job *job = job_;
    mct_gradients result = *job->to;
    const int32_t channels = result.channels;
    const int32_t end = mct_part_begin(job->positions, part + 1, parts, 8);
    int32_t sums[MCT_MAP_ROWS * MCT_LANES];
    for (int32_t c = 0; c < channels; c += MCT_LANES) {
        const int32_t lanes = mct_min(channels - c, MCT_LANES);
        for (int32_t row = mct_part_begin(job->positions, part, parts, 8); row < end;
             row += MCT_MAP_ROWS) {
            const int32_t rows = mct_min(end - row, MCT_MAP_ROWS);
            for (int32_t r = 0; r < rows; r++) {
                const int8_t *from = job->a + (row + r) * channels + c;
                mct_v_store(sums + r * MCT_LANES, mct_v_load_s8(from, lanes));
            }
            const mct_tile tile = {row, rows, c, lanes, MCT_LANES, sums};
            mct_take_gradients(&result, &tile);
        }
    }
}

/* Gradients converted element by element: dx = what the writer makes of a, which may be dx. */
static inline void mct_gradient_map(const mct_gradients *to, int32_t positions, const int8_t *a) {
    const mct_gradient_map_job job = {to, positions, a};
    const int64_t elements = (int64_t)positions * to->channels;
    mct_threads_run(mct_gradient_map_part, &job,
                    mct_threads_for(elements * MCT_PRODUCTS_OF_AN_ELEMENT));
}

#endif
