/* Sums to int8 gradients, a tile at a time: the vector form of mct_gradient_write_s8. */
#ifndef MCT_GRADIENT_ROWS_H
#define MCT_GRADIENT_ROWS_H

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_simd.h"

/* A factor per lane; its shift to the right leaves MCT_FRACTION_BITS behind the point. */
typedef struct {
    mct_v32 mult;
    mct_v64 right_even, right_odd;
} mct_v_factor;

/* The same for all lanes. right: what mct_shift_right gives. */
static inline mct_v_factor mct_v_factor_of(mct_v32 mult, mct_v32 right) {
    const mct_v32 bits = right - MCT_FRACTION_BITS;
    return (mct_v_factor){
        .mult = mult,
        .right_even = (mct_v64)mct_v_even(bits),
        .right_odd = (mct_v64)mct_v_odd(bits),
    };
}

/* Those of the channels c … c + count - 1 of a stage. */
static inline mct_v_factor mct_v_stage_factor(const mct_gradient_stage *stage, int32_t change,
                                              int32_t c, int32_t count) {
    int32_t mult[MCT_LANES] = {0};
    int32_t right[MCT_LANES];
    for (int32_t l = 0; l < MCT_LANES; l++) {
        const int32_t m = stage->per_channel && l < count ? c + l : 0;
        mult[l] = l < count ? stage->mult_q31[m] : 0;
        right[l] = mct_shift_right(stage->shift[m] + change);
    }
    return mct_v_factor_of(mct_v_load(mult), mct_v_load(right));
}

/* mct_scale_to_fraction of the even and the odd lanes. */
typedef struct {
    mct_v64 even, odd;
} mct_v_fraction;

static inline mct_v_fraction mct_v_scale_to_fraction(const mct_v_factor *f, mct_v32 sums) {
    return (mct_v_fraction){
        .even = mct_v_shift_right64(mct_v_mul_even(sums, f->mult), f->right_even),
        .odd =
            mct_v_shift_right64(mct_v_mul_even(mct_v_odd(sums), mct_v_odd(f->mult)), f->right_odd),
    };
}

/* Rounded stochastically and clamped; |low|, |high| < 2^31. */
static inline mct_v32 mct_v_round_fraction(mct_v_fraction f, mct_v32 random, int64_t low,
                                           int64_t high) {
    const mct_v64 bits = MCT_FRACTION_BITS - (mct_v64){0};
    const mct_v64 even = mct_v_shift_right64(f.even + (mct_v64)mct_v_even(random), bits);
    const mct_v64 odd = mct_v_shift_right64(f.odd + (mct_v64)mct_v_odd(random), bits);
    return mct_v_interleave(mct_v_clamp64(even, low, high), mct_v_clamp64(odd, low, high));
}

/* -1 in the lanes whose element, first …, passes the mask; count <= MCT_LANES. */
static inline mct_v32 mct_v_passing(const uint8_t *mask, int32_t first, int32_t count) {
    uint32_t bits = 0;
    for (int32_t byte = first >> 3; byte <= (first + count - 1) >> 3; byte++) {
        bits |= (uint32_t)mask[byte] << (8 * (byte - (first >> 3)));
    }
    bits >>= first & 7;
    const mct_vu32 lanes = (mct_vu32)mct_v_all((int32_t)bits) >> mct_v_count(0);
    return -(mct_v32)(lanes & 1u);
}

/* What the elements of a tile have needed, by lanes. */
static inline uint64_t mct_v_seen(mct_v64 seen) {
    uint64_t all = 0;
    for (uint32_t l = 0; l < MCT_LANES / 2; l++) {
        all |= (uint64_t)seen[l];
    }
    return all;
}

/* Converts a tile: `rows` rows of `channels` sums, sums_stride apart, of the channels channel …;
 * row r begins with element first + r * stride of dx. */
static inline void mct_gradient_rows(mct_gradient_writer *writer, int32_t rows, int32_t channel,
                                     int32_t channels, const int32_t *sums, int32_t sums_stride,
                                     int32_t first, int32_t stride, int8_t *dx) {
    const int8_t *addend = writer->addend;
    mct_v64 seen = {0};
    for (int32_t c = 0; c < channels; c += MCT_LANES) {
        const int32_t lanes = mct_min(channels - c, MCT_LANES);
        const mct_v32 used = (mct_v32)(mct_v_count(0) < (uint32_t)lanes);
        const mct_v_factor factor =
            mct_v_stage_factor(writer->stage, writer->exponent_change, channel + c, lanes);
        mct_v_factor addend_factor = factor;
        if (addend != NULL) {
            addend_factor =
                mct_v_stage_factor(writer->addend_stage, writer->addend_change, channel + c, lanes);
        }
        for (int32_t r = 0; r < rows; r++) {
            const int32_t i = first + r * stride + c;
            const mct_v32 passing =
                writer->mask != NULL ? mct_v_passing(writer->mask, i, lanes) & used : used;
            const mct_v32 sum = mct_v_load(sums + r * sums_stride + c);
            mct_v_fraction f = mct_v_scale_to_fraction(&factor, sum & passing);
            if (addend != NULL) {
                const mct_v32 added = mct_v_load_s8(addend + i, lanes);
                const mct_v_fraction g = mct_v_scale_to_fraction(&addend_factor, added & passing);
                f = (mct_v_fraction){f.even + g.even, f.odd + g.odd};
            }
            seen |= (f.even ^ (f.even < 0)) | (f.odd ^ (f.odd < 0));
            const mct_v32 random = mct_v_random16(writer->key, mct_v_count(i));
            mct_v_store_s8(dx + i, mct_v_round_fraction(f, random, -127, 127), lanes);
        }
    }
    writer->seen |= mct_v_seen(seen);
}

#endif
