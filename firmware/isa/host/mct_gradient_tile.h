/* SPDX-License-Identifier: Apache-2.0 */
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

/* The same of whatever fits int8. */
static inline int mct_v_bytes_are_small(const mct_v_factor *f) {
    return f->may_be_small && mct_v_bits(f->left <= 24) == MCT_ALL_LANES;
}

/* mct_scale_to_fraction of small sums: -2^30 to 2^30 - 1, so that two of them still fit int32. Before
 * random bits are added, what will be clamped anyway has to be made smaller. */
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
    const mct_v64 odd = mct_v_mul_even(mct_v_odd_down(sums), mct_v_odd_down(f->mult));
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

/* The bits of a mask from element `first` on, of `count` <= MCT_LANES elements. */
static inline uint32_t mct_mask_bits(const uint8_t *mask, int32_t first, int32_t count) {
    uint32_t bits = mask[first >> 3];
    if (MCT_LANES <= 8 && first % MCT_LANES == 0) {
        return bits >> (first & 7);
    }
    if (MCT_LANES == 16 && first % 8 == 0 && count > 8) {
        return bits | (uint32_t)mask[(first >> 3) + 1] << 8;
    }
    for (int32_t byte = (first >> 3) + 1; byte <= (first + count - 1) >> 3; byte++) {
        bits |= (uint32_t)mask[byte] << (8 * (byte - (first >> 3)));
    }
    return bits >> (first & 7);
}

/* -1 in the first `count` lanes whose element, first …, passes the mask; NULL: all pass. */
static inline mct_v32 mct_v_passing(const uint8_t *mask, int32_t first, int32_t count) {
    const uint32_t used = (UINT32_C(1) << count) - 1u;
    return mct_v_of_bits(mask == NULL ? used : used & mct_mask_bits(mask, first, count));
}

/* A gradient in progress: dx[position][channel]. */
typedef struct {
    mct_gradient_writer *writer;
    int32_t channels;
    int8_t *dx;
} mct_gradients;

/* `lanes` channels from c on of a tile, is_added: with an addend; returns what its elements need. */
__attribute__((always_inline)) static inline mct_v64 mct_gradient_lanes(const mct_gradients *to,
                                                                        const mct_tile *tile,
                                                                        int32_t c, int32_t lanes,
                                                                        int is_added) {
    const mct_gradient_writer *writer = to->writer;
    const int8_t *addend = writer->addend; /* copies stay in registers while dx is written */
    const uint8_t *mask = writer->mask;
    const uint32_t key = writer->key;
    const mct_tile in = *tile;
    int8_t *dx = to->dx;
    const int32_t channels = to->channels, channel = in.column + c;
    const mct_v_factor factor =
        mct_v_stage_factor(writer->stage, writer->exponent_change, channel, lanes);
    mct_v_factor addend_factor = factor;
    if (is_added) {
        addend_factor =
            mct_v_stage_factor(writer->addend_stage, writer->addend_change, channel, lanes);
    }
    const int addend_is_small = !is_added || mct_v_bytes_are_small(&addend_factor);
    mct_v64 seen = {0};
    mct_v32 seen_small = {0};
    for (int32_t r = 0; r < in.rows; r++) {
        const int32_t i = (in.row + r) * channels + channel;
        const mct_v32 passing = mct_v_passing(mask, i, lanes);
        const mct_v32 sum = mct_v_load(in.sums + r * in.stride + c) & passing;
        const mct_v32 random = mct_v_random16(key, mct_v_count(i));
        if (addend_is_small && mct_v_is_small(&factor, sum)) {
            mct_v32 small = mct_v_small_fraction(&factor, sum);
            if (is_added) {
                const mct_v32 added = mct_v_load_s8(addend + i, lanes) & passing;
                small += mct_v_small_fraction(&addend_factor, added);
            }
            seen_small |= small ^ (small < 0);
            if (is_added) {
                small = mct_v_min(small, mct_v_all(128 << MCT_FRACTION_BITS));
            }
            mct_v_store_s8(dx + i, mct_v_round_small(small, random, 127), lanes);
            continue;
        }
        mct_v_fraction f = mct_v_scale_to_fraction(&factor, sum);
        if (is_added) {
            const mct_v32 added = mct_v_load_s8(addend + i, lanes);
            const mct_v_fraction g = mct_v_scale_to_fraction(&addend_factor, added & passing);
            f = (mct_v_fraction){f.even + g.even, f.odd + g.odd};
        }
        seen |= (f.even ^ (f.even < 0)) | (f.odd ^ (f.odd < 0));
        mct_v_store_s8(dx + i, mct_v_round_fraction(f, random, 127), lanes);
    }
    return seen | (mct_v64)mct_v_even(seen_small) | (mct_v64)mct_v_odd(seen_small);
}

__attribute__((always_inline)) static inline mct_v64
mct_gradient_tile(const mct_gradients *to, const mct_tile *tile, int is_added) {
    mct_v64 seen = {0};
    int32_t c = 0;
    for (; c + MCT_LANES <= tile->columns; c += MCT_LANES) {
        seen |= mct_gradient_lanes(to, tile, c, MCT_LANES, is_added);
    }
    if (c < tile->columns) {
        seen |= mct_gradient_lanes(to, tile, c, tile->columns - c, is_added);
    }
    return seen;
}

/* A mct_take; result: mct_gradients. */
static inline void mct_take_gradients(void *result, const mct_tile *tile) {
    const mct_gradients *to = result;
    const mct_v64 seen = to->writer->addend != NULL ? mct_gradient_tile(to, tile, 1)
                                                    : mct_gradient_tile(to, tile, 0);
    uint64_t all = 0;
    for (uint32_t l = 0; l < MCT_LANES / 2; l++) {
        all |= (uint64_t)seen[l];
    }
    __atomic_fetch_or(&to->writer->seen, all, __ATOMIC_RELAXED); /* of any thread */
}

/* Whether a channel has a factor of its own. */
static inline int mct_channels_differ(const mct_gradient_writer *writer) {
    return writer->stage->per_channel ||
           (writer->addend != NULL && writer->addend_stage->per_channel);
}

/* The sums of `count` channels of a position from c on; what comes after them up to a whole vector
 * may be anything. Channels that are alike are taken as if there were a vector of them. */
static inline void mct_take_run(const mct_gradients *to, int32_t position, int32_t c, int32_t count,
                                const int32_t *sums) {
    mct_gradients result = *to;
    if (mct_channels_differ(to->writer)) {
        const mct_tile tile = {position, 1, c, count, count, sums};
        mct_take_gradients(&result, &tile);
        return;
    }
    const int32_t i = position * to->channels + c, whole = count / MCT_LANES * MCT_LANES;
    const mct_tile vectors = {0, count / MCT_LANES, i, MCT_LANES, MCT_LANES, sums};
    const mct_tile rest = {0, 1, i + whole, count - whole, MCT_LANES, sums + whole};
    result.channels = MCT_LANES;
    mct_take_gradients(&result, &vectors);
    mct_take_gradients(&result, &rest);
}

#define MCT_MAP_ROWS 32
#define MCT_MAP_ELEMENTS (MCT_MAP_ROWS * MCT_LANES)

/* sums[n] of the elements i … i + count - 1: channels c … of a position, or of any positions where
 * channels are alike. */
typedef void mct_element_sums(const void *job, int32_t i, int32_t c, int32_t count, int32_t *sums);

/* Gradients computed element by element, of which each depends on what dx has in its place only. */
typedef struct {
    const mct_gradients *to;
    int32_t positions;
    mct_element_sums *of;
    const void *job;
} mct_gradient_map_job;

static inline void mct_map_channels_part(const void *map_, int32_t part, int32_t parts) {
    const mct_gradient_map_job *map = map_;
    mct_gradients result = *map->to;
    int32_t sums[MCT_MAP_ELEMENTS] = {0};
    const int32_t channels = result.channels;
    const int32_t end = mct_part_begin(map->positions, part + 1, parts, 8);
    for (int32_t c = 0; c < channels; c += MCT_LANES) {
        const int32_t lanes = mct_min(channels - c, MCT_LANES);
        for (int32_t row = mct_part_begin(map->positions, part, parts, 8); row < end;
             row += MCT_MAP_ROWS) {
            const int32_t rows = mct_min(end - row, MCT_MAP_ROWS);
            for (int32_t r = 0; r < rows; r++) {
                map->of(map->job, (row + r) * channels + c, c, lanes, sums + r * MCT_LANES);
            }
            const mct_tile tile = {row, rows, c, lanes, MCT_LANES, sums};
            mct_take_gradients(&result, &tile);
        }
    }
}

/* Parts of whole cache lines, for speed: they would have the same bits wherever they begin. */
static inline void mct_map_alike_part(const void *map_, int32_t part, int32_t parts) {
    const mct_gradient_map_job *map = map_;
    int32_t sums[MCT_MAP_ELEMENTS] = {0};
    const int32_t elements = map->positions * map->to->channels;
    const int32_t end = mct_part_begin(elements, part + 1, parts, 64);
    for (int32_t i = mct_part_begin(elements, part, parts, 64); i < end; i += MCT_MAP_ELEMENTS) {
        const int32_t count = mct_min(end - i, MCT_MAP_ELEMENTS);
        map->of(map->job, i, 0, count, sums);
        mct_take_run(map->to, 0, i, count, sums);
    }
}

static inline void mct_map_run(mct_part *run, const mct_gradient_map_job *map) {
    const int64_t elements = (int64_t)map->positions * map->to->channels;
    mct_threads_run(run, map, mct_threads_for(elements * MCT_PRODUCTS_OF_AN_ELEMENT));
}

static inline void mct_gradient_map_channels(const mct_gradients *to, int32_t positions,
                                             mct_element_sums *of, const void *job) {
    const mct_gradient_map_job map = {to, positions, of, job};
    mct_map_run(mct_map_channels_part, &map);
}

/* The same for sums that do not depend on the channel. */
static inline void mct_gradient_map(const mct_gradients *to, int32_t positions,
                                    mct_element_sums *of, const void *job) {
    const mct_gradient_map_job map = {to, positions, of, job};
    mct_map_run(mct_channels_differ(to->writer) ? mct_map_channels_part : mct_map_alike_part, &map);
}

/* A mct_element_sums of int8. */
static inline void mct_widened(const void *job, int32_t i, int32_t c, int32_t count,
                               int32_t *sums) {
    const int8_t *a = (const int8_t *)job + i;
    (void)c;
    for (int32_t n = 0; n < count; n++) {
        sums[n] = a[n];
    }
}

#endif
