/* SPDX-License-Identifier: Apache-2.0 */
/* mct_gradient_write_s8, four elements at a time.
 *
 * fraction = sum * mult_q31 / 2^bits, rounded down, is the high half of (sum * 2^(32 - bits)) *
 * mult_q31 if that factor fits int32, and then below 2^30. Runs with a sum of which it does not go
 * the portable way: that is rare, for their fractions are far beyond int8. */
#ifndef MCT_HELIUM_GRADIENT_H
#define MCT_HELIUM_GRADIENT_H

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_helium.h"

/* A step of the counter of mct_random16. */
#define MCT_HELIUM_GOLDEN UINT32_C(0x9E3779B9)
/* An int8 times 2^24 fits int32. */
#define MCT_HELIUM_MOST_LEFT 24

/* Of a channel. right: negative or 0, as VSHL takes it. */
typedef struct {
    int32_t mult_q31, left, right;
    int is_short; /* 0: its bits are 0 */
} mct_helium_factor;

static inline mct_helium_factor mct_helium_factor_of(const mct_gradient_stage *stage,
                                                     int32_t change, int32_t c) {
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t left = 32 - mct_shift_right(stage->shift[m] + change) + MCT_FRACTION_BITS;
    return (mct_helium_factor){
        .mult_q31 = stage->mult_q31[m],
        .left = mct_clamp(left, 0, 31),
        .right = mct_min(left, 0),
        .is_short = left < 32,
    };
}

/* Of four channels. */
typedef struct {
    int32_t mult_q31[4], left[4], right[4];
    int32_t most_left;
    int is_short;
} mct_helium_factors;

/* Of the channels c … c + count - 1; what comes after is the last one's. */
static inline mct_helium_factors mct_helium_factors_of(const mct_gradient_stage *stage,
                                                       int32_t change, int32_t c, int32_t count) {
    mct_helium_factors f;
    f.most_left = 0;
    f.is_short = 1;
    for (int32_t l = 0; l < 4; l++) {
        const mct_helium_factor one =
            mct_helium_factor_of(stage, change, c + mct_min(l, count - 1));
        f.mult_q31[l] = one.mult_q31;
        f.left[l] = one.left;
        f.right[l] = one.right;
        f.most_left = mct_max(f.most_left, one.left);
        f.is_short &= one.is_short;
    }
    return f;
}

/* What a node writes its gradient with. */
typedef struct {
    mct_gradient_writer *writer;
    int8_t *dx;
    uint32_t seen; /* or of the magnitudes that took the short way */
} mct_helium_writer;

static inline void mct_helium_writer_end(mct_helium_writer *to) {
    to->writer->seen |= to->seen;
    mct_gradient_end(to->writer, 7);
}

/* Whether the sums of `vectors` vectors lose nothing if they are moved to the left. */
static inline int mct_helium_fit(int32x4_t left, const int32_t *sums, int32_t vectors) {
    const int32x4_t back = vnegq_s32(left);
    int32x4_t lost = vdupq_n_s32(0);
    for (; vectors > 0; vectors--, sums += 4) {
        const int32x4_t sum = vldrwq_s32(sums);
        lost = vorrq_s32(lost, veorq_s32(vshlq_s32(vshlq_s32(sum, left), back), sum));
    }
    return vcmpneq_s32(lost, vdupq_n_s32(0)) == 0;
}

/* The 16 random bits of four counters. */
static inline int32x4_t mct_helium_random(uint32x4_t x) {
    x = vmulq_n_u32(veorq_u32(x, vshrq_n_u32(x, 16)), UINT32_C(0x21F0AAAD));
    x = vmulq_n_u32(veorq_u32(x, vshrq_n_u32(x, 15)), UINT32_C(0x735A2D97));
    return vreinterpretq_s32_u32(vshrq_n_u32(veorq_u32(x, vshrq_n_u32(x, 15)), 16));
}

static inline int32x4_t mct_helium_fraction(int32x4_t sums, int32x4_t mult_q31, int32x4_t left,
                                            int32x4_t right) {
    return vshlq_s32(vmulhq_s32(vshlq_s32(sums, left), mult_q31), right);
}

static inline int32x4_t mct_helium_magnitude(int32x4_t fraction) {
    return veorq_s32(fraction, vshrq_n_s32(fraction, 31));
}

/* A fraction as a gradient. */
static inline int32x4_t mct_helium_rounded(int32x4_t fraction, uint32x4_t counter) {
    const int32x4_t rounded = vshrq_n_s32(vqaddq_s32(fraction, mct_helium_random(counter)), 16);
    return vminq_s32(vmaxq_s32(rounded, vdupq_n_s32(-127)), vdupq_n_s32(127));
}

static inline uint32_t mct_helium_or_lanes(int32x4_t v) {
    int32_t lanes[4];
    vstrwq_s32(lanes, v);
    return (uint32_t)(lanes[0] | lanes[1] | lanes[2] | lanes[3]);
}

/* Four bits as the predicate of four lanes. */
static inline mve_pred16_t mct_helium_lanes(uint32_t bits) {
    return (mve_pred16_t)(((bits | bits << 3 | bits << 6 | bits << 9) & 0x1111u) * 15u);
}

/* The portable way: the elements i, i + step …, of channels c, c + c_step …. */
static inline void mct_helium_write_any(const mct_helium_writer *to, const int32_t *sums, int32_t c,
                                        int32_t c_step, int32_t i, int32_t step, int32_t count) {
    for (int32_t n = 0; n < count; n++, c += c_step, i += step) {
        mct_gradient_put_s8(to->writer, sums[n], c, i, to->dx + i);
    }
}

/* Four neighbouring channels at `positions` positions, whose sums lie so one after the other; the first
 * is the element `first`, the others follow `step` elements after each other. */
static inline __attribute__((always_inline)) void
mct_helium_write_block(mct_helium_writer *to, const mct_helium_factors *f,
                       const mct_helium_factors *added, const int32_t *sums, int32_t first,
                       int32_t step, int32_t positions, int masked, int adds) {
    const mct_gradient_writer *writer = to->writer;
    const int32x4_t mult = vldrwq_s32(f->mult_q31), left = vldrwq_s32(f->left);
    const int32x4_t right = vldrwq_s32(f->right);
    const uint32_t counts = (uint32_t)step * MCT_HELIUM_GOLDEN;
    uint32x4_t counter = vmulq_n_u32(mct_helium_numbers_u32(), MCT_HELIUM_GOLDEN);
    counter = vaddq_n_u32(counter, (uint32_t)first * MCT_HELIUM_GOLDEN + writer->key);
    int32x4_t seen = vdupq_n_s32(0);
    const int8_t *addend = writer->addend;
    for (; positions > 0; positions--, first += step, sums += 4) {
        int32x4_t sum, more;
        if (masked) { /* all four are in one byte */
            const mve_pred16_t passes =
                mct_helium_lanes((uint32_t)(writer->mask[first >> 3] >> (first & 7)) & 15u);
            sum = vldrwq_z_s32(sums, passes);
            more = adds ? vldrbq_z_s32(addend + first, passes) : sum;
        } else {
            sum = vldrwq_s32(sums);
            more = adds ? vldrbq_s32(addend + first) : sum;
        }
        int32x4_t fraction = mct_helium_fraction(sum, mult, left, right);
        if (adds) {
            fraction = vaddq_s32(fraction, mct_helium_fraction(more, vldrwq_s32(added->mult_q31),
                                                               vldrwq_s32(added->left),
                                                               vldrwq_s32(added->right)));
        }
        seen = vorrq_s32(seen, mct_helium_magnitude(fraction));
        vstrbq_s32(to->dx + first, mct_helium_rounded(fraction, counter));
        counter = vaddq_n_u32(counter, counts);
    }
    to->seen |= mct_helium_or_lanes(seen);
}

/* Channels c … c + count - 1, at most four; what a position lacks of them is there and not used. */
static inline void mct_helium_write_columns(mct_helium_writer *to, const int32_t *sums, int32_t c,
                                            int32_t count, int32_t first, int32_t step,
                                            int32_t positions) {
    const mct_gradient_writer *writer = to->writer;
    const mct_helium_factors f =
        mct_helium_factors_of(writer->stage, writer->exponent_change, c, count);
    mct_helium_factors added = f;
    if (writer->addend != NULL) {
        added = mct_helium_factors_of(writer->addend_stage, writer->addend_change, c, count);
    }
    const int masked = writer->mask != NULL;
    if (count < 4 || (masked && (first | step) % 4 != 0) ||
        (writer->addend != NULL && (added.most_left > MCT_HELIUM_MOST_LEFT || !added.is_short)) ||
        !f.is_short || !mct_helium_fit(vldrwq_s32(f.left), sums, positions)) {
        for (; positions > 0; positions--, first += step, sums += 4) {
            mct_helium_write_any(to, sums, c, 1, first, 1, count);
        }
    } else if (writer->addend != NULL) {
        if (masked) {
            mct_helium_write_block(to, &f, &added, sums, first, step, positions, 1, 1);
        } else {
            mct_helium_write_block(to, &f, &added, sums, first, step, positions, 0, 1);
        }
    } else if (masked) {
        mct_helium_write_block(to, &f, &f, sums, first, step, positions, 1, 0);
    } else {
        mct_helium_write_block(to, &f, &f, sums, first, step, positions, 0, 0);
    }
}

/* Which of four elements pass: each has a bit at any place of the mask. */
static inline mve_pred16_t mct_helium_gathered(const uint8_t *mask, uint32x4_t i) {
    const uint32x4_t bytes = vldrbq_gather_offset_u32(mask, vshrq_n_u32(i, 3));
    const int32x4_t bit = vreinterpretq_s32_u32(vandq_u32(i, vdupq_n_u32(7)));
    const uint32x4_t moved = vshlq_u32(bytes, vnegq_s32(bit));
    /* gcc 12 does not survive vcmpneq_n here */
    return vcmpneq_u32(vandq_u32(moved, vdupq_n_u32(1)), vdupq_n_u32(0));
}

/* `whole` elements of a channel, a multiple of 4. */
static inline __attribute__((always_inline)) void
mct_helium_write_whole(mct_helium_writer *to, const mct_helium_factor *f, const int32_t *sums,
                       int32_t first, int32_t step, int32_t whole, int masked) {
    const mct_gradient_writer *writer = to->writer;
    const int32x4_t mult = vdupq_n_s32(f->mult_q31), left = vdupq_n_s32(f->left);
    const int32x4_t right = vdupq_n_s32(f->right);
    const uint32x4_t lanes = vmulq_n_u32(mct_helium_numbers_u32(), (uint32_t)step);
    uint32x4_t i = vaddq_n_u32(lanes, (uint32_t)first);
    int32x4_t seen = vdupq_n_s32(0);
    for (int32_t n = 0; n < whole; n += 4) {
        const int32x4_t sum = masked ? vldrwq_z_s32(sums + n, mct_helium_gathered(writer->mask, i))
                                     : vldrwq_s32(sums + n);
        const int32x4_t fraction = mct_helium_fraction(sum, mult, left, right);
        const uint32x4_t counter = vaddq_n_u32(vmulq_n_u32(i, MCT_HELIUM_GOLDEN), writer->key);
        seen = vorrq_s32(seen, mct_helium_magnitude(fraction));
        vstrbq_scatter_offset_s32(to->dx + first + n * step, lanes,
                                  mct_helium_rounded(fraction, counter));
        i = vaddq_n_u32(i, 4u * (uint32_t)step);
    }
    to->seen |= mct_helium_or_lanes(seen);
}

/* Channel c at `count` positions, without an addend; the elements follow `step` after each other. */
static inline void mct_helium_write_channel(mct_helium_writer *to, const int32_t *sums, int32_t c,
                                            int32_t first, int32_t step, int32_t count) {
    const mct_gradient_writer *writer = to->writer;
    const mct_helium_factor f = mct_helium_factor_of(writer->stage, writer->exponent_change, c);
    const int fits = f.is_short && mct_helium_fit(vdupq_n_s32(f.left), sums, count / 4);
    const int32_t whole = fits ? count & ~3 : 0;
    if (writer->mask != NULL) {
        mct_helium_write_whole(to, &f, sums, first, step, whole, 1);
    } else {
        mct_helium_write_whole(to, &f, sums, first, step, whole, 0);
    }
    mct_helium_write_any(to, sums + whole, c, 0, first + whole * step, step, count - whole);
}

#endif
