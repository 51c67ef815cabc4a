/* mct_gradient_write_s8, four elements at a time, without 64-bit shifts.
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

/* Element i, of channel c, the portable way. */
static inline int8_t mct_dsp_round_wide(const mct_dsp_writer *to, const mct_factor *factor,
                                        int32_t sum, int32_t c, int32_t i) {
    mct_gradient_writer *writer = to->writer;
    int64_t fraction = ((int64_t)sum * factor->mult_q31) >> factor->bits;
    if (writer->addend != NULL) {
        const mct_factor added = mct_factor_of(writer->addend_stage, writer->addend_change, c);
        const int8_t *addend = writer->addend;
        fraction += ((int64_t)addend[i] * added.mult_q31) >> added.bits;
    }
    writer->seen |= (uint64_t)(fraction ^ (fraction >> 63));
    const int64_t rounded = (fraction + mct_random16(to->key, (uint32_t)i)) >> MCT_FRACTION_BITS;
    return (int8_t)mct_clamp64(rounded, -127, 127);
}

/* What a sum loses if it takes the short way: 0 if nothing. */
static inline int32_t mct_dsp_lost(const mct_factor *factor, int32_t sum) {
    return ((int32_t)((uint32_t)sum << factor->left) >> factor->left) ^ sum;
}

static inline int32_t mct_dsp_fraction(const mct_factor *factor, int32_t sum) {
    const int32_t moved = (int32_t)((uint32_t)sum << factor->left);
    return mct_high_product(moved, factor->mult_q31) >> factor->right;
}

/* -1 where the element i passes, else 0. */
static inline int32_t mct_dsp_passes(const uint8_t *mask, int32_t i) {
    return mask == NULL ? -1 : -((mask[i >> 3] >> (i & 7)) & 1);
}

/* Sums of neighbouring channels: channel l at position n is from[l * lane + n * position]. */
typedef struct {
    const int32_t *from;
    int32_t lane, position;
} mct_dsp_sums;

/* The sums of four neighbouring channels at the elements first … first + 3, `count` of which there
 * are, the portable way. */
static __attribute__((noinline)) void mct_dsp_write4_wide(mct_dsp_writer *to,
                                                          const mct_factor *factors,
                                                          const int32_t *sums, int32_t lane,
                                                          int32_t c, int32_t first, int32_t count) {
    for (int32_t l = 0; l < count; l++) {
        const int32_t i = first + l;
        to->dx[i] = mct_dsp_passes(to->writer->mask, i)
                        ? mct_dsp_round_wide(to, &factors[l], sums[l * lane], c + l, i)
                        : 0;
    }
}

/* A sum, rounded, in int8's range. seen: gets its magnitude. counter: of the random bits. */
static inline int32_t mct_dsp_round(const mct_factor *factor, int32_t sum, uint32_t counter,
                                    uint32_t *seen) {
    const int32_t fraction = mct_dsp_fraction(factor, sum);
    *seen |= (uint32_t)(fraction ^ (fraction >> 31));
    return mct_whole_saturate8(fraction + (int32_t)(mct_hash32(counter) >> 16));
}

/* Four neighbouring channels from c on at `positions` positions, the first of which is the element
 * `first`; the others follow `step` elements after each other. There are `count` channels of them. */
static inline __attribute__((always_inline)) void
mct_dsp_write_block(mct_dsp_writer *to, const mct_factor *factors, const mct_factor *f0,
                    const mct_factor *f1, const mct_factor *f2, const mct_factor *f3,
                    mct_dsp_sums sums, int32_t c, int32_t first, int32_t step, int32_t positions) {
    const uint8_t *mask = to->writer->mask;
    int8_t *dx = to->dx;
    const int32_t *from = sums.from;
    const int32_t lane = sums.lane;
    uint32_t seen = 0;
    uint32_t counter = (uint32_t)first * MCT_DSP_GOLDEN + to->key;
    const uint32_t counts = (uint32_t)step * MCT_DSP_GOLDEN;
    for (; positions > 0; positions--, first += step, counter += counts, from += sums.position) {
        uint32_t passes = 15;
        if (mask != NULL) { /* all four are in one byte */
            passes = (uint32_t)(mask[first >> 3] >> (first & 7)) & 15u;
        }
        if (passes == 0) {
            const uint32_t zeros = 0;
            __builtin_memcpy(dx + first, &zeros, sizeof zeros);
            mct_keep_loop();
            continue;
        }
        const int32_t s0 = from[0] & -(int32_t)(passes & 1);
        const int32_t s1 = from[lane] & -(int32_t)(passes >> 1 & 1);
        const int32_t s2 = from[2 * lane] & -(int32_t)(passes >> 2 & 1);
        const int32_t s3 = from[3 * lane] & -(int32_t)(passes >> 3 & 1);
        if ((mct_dsp_lost(f0, s0) | mct_dsp_lost(f1, s1) | mct_dsp_lost(f2, s2) |
             mct_dsp_lost(f3, s3)) != 0) {
            mct_dsp_write4_wide(to, factors, from, lane, c, first, 4);
            continue;
        }
        const int32_t r0 = mct_dsp_round(f0, s0, counter, &seen);
        const int32_t r1 = mct_dsp_round(f1, s1, counter + MCT_DSP_GOLDEN, &seen);
        const int32_t r2 = mct_dsp_round(f2, s2, counter + 2 * MCT_DSP_GOLDEN, &seen);
        const int32_t r3 = mct_dsp_round(f3, s3, counter + 3 * MCT_DSP_GOLDEN, &seen);
        const uint32_t even = mct_lows((uint32_t)r0, (uint32_t)r2) & 0x00FF00FFu;
        const uint32_t odd = mct_lows((uint32_t)r1, (uint32_t)r3) & 0x00FF00FFu;
        /* -128 becomes -127: less 1, saturated, plus 1 */
        const uint32_t less = mct_sub_bytes_saturated(even | odd << 8, 0x01010101u);
        const uint32_t bytes = mct_sub_bytes_saturated(less, 0xFFFFFFFFu);
        __builtin_memcpy(dx + first, &bytes, sizeof bytes);
    }
    to->seen |= seen;
}

static inline __attribute__((always_inline)) void
mct_dsp_write_sums(mct_dsp_writer *to, const mct_factor *factors, mct_dsp_sums sums, int32_t c,
                   int32_t count, int32_t first, int32_t step, int32_t positions) {
    int wide = to->writer->addend != NULL || count < 4 ||
               (to->writer->mask != NULL && (first | step) % 4 != 0);
    for (int32_t l = 0; l < 4; l++) {
        wide |= factors[l].bits == 0;
    }
    if (wide) {
        for (int32_t i = 0; i < positions; i++) {
            mct_dsp_write4_wide(to, factors, sums.from + i * sums.position, sums.lane, c,
                                first + i * step, count);
        }
    } else if (to->writer->stage->per_channel) {
        mct_dsp_write_block(to, factors, &factors[0], &factors[1], &factors[2], &factors[3], sums,
                            c, first, step, positions);
    } else {
        const mct_factor f = factors[0];
        mct_dsp_write_block(to, factors, &f, &f, &f, &f, sums, c, first, step, positions);
    }
}

static inline void mct_dsp_write_columns(mct_dsp_writer *to, const mct_factor *factors,
                                         const mct_sums4 *sums, int32_t c, int32_t count,
                                         int32_t first, int32_t step, int32_t positions) {
    const mct_dsp_sums of = {sums->lane, 1, 4};
    mct_dsp_write_sums(to, factors, of, c, count, first, step, positions);
}

#endif
