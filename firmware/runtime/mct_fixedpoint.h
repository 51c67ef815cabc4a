/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic of all kernels. mcutrain/fixedpoint.py is the same in numpy, bit for bit.
 *
 * Shifts to the right of negative numbers are arithmetic, as on every compiler for the supported
 * chips (C11 6.5.7 leaves it to the implementation; a test compiles and checks it). */
#ifndef MCT_FIXEDPOINT_H
#define MCT_FIXEDPOINT_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_FRACTION_BITS 16
#define MCT_MIN_SHIFT_RIGHT 16
#define MCT_MAX_SHIFT_RIGHT 62
#define MCT_SATURATED_SUM (INT32_MAX - 255)

static inline int32_t mct_min(int32_t a, int32_t b) {
    return a < b ? a : b;
}
static inline int32_t mct_max(int32_t a, int32_t b) {
    return a > b ? a : b;
}
static inline int32_t mct_clamp(int32_t x, int32_t low, int32_t high) {
    return mct_min(mct_max(x, low), high);
}

static inline int64_t mct_clamp64(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : (x > high ? high : x);
}

static inline int32_t mct_saturate32(int64_t x) {
    return (int32_t)mct_clamp64(x, INT32_MIN, INT32_MAX);
}

/* Whether the processor multiplies two int32 into an int64 by an instruction of its own or two. */
#ifndef MCT_LONG_PRODUCT
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define MCT_LONG_PRODUCT 0
#else
#define MCT_LONG_PRODUCT 1
#endif
#endif

/* a * b / 2^32, rounded down, and what is below it */
typedef struct {
    int32_t high;
    uint32_t low; /* without its lowest 16 bits where there is no long product */
} mct_long_product;

static inline mct_long_product mct_long_product_of(int32_t a, int32_t b) {
#if MCT_LONG_PRODUCT
    const int64_t product = (int64_t)a * b;
    const mct_long_product of = {(int32_t)(product >> 32), (uint32_t)product};
#else
    const uint32_t a_low = (uint32_t)a & 0xFFFFu, b_low = (uint32_t)b & 0xFFFFu;
    const int32_t a_high = a >> 16, b_high = b >> 16;
    const int32_t first = (int32_t)a_low * b_high + (int32_t)(a_low * b_low >> 16);
    const int32_t second = a_high * (int32_t)b_low;
    const uint32_t middle = ((uint32_t)second & 0xFFFFu) + ((uint32_t)first & 0xFFFFu);
    const int32_t top = a_high * b_high + (second >> 16) + (first >> 16) + (int32_t)(middle >> 16);
    const mct_long_product of = {top, middle << 16};
#endif
    return of;
}

/* a * b / 2^31, rounded half up. Not for a = b = INT32_MIN. */
static inline int32_t mct_high_mul(int32_t a, int32_t b) {
#if MCT_LONG_PRODUCT
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
#else
    const mct_long_product product = mct_long_product_of(a, b);
    return (int32_t)((uint32_t)product.high * 2u + (((product.low >> 30) + 1u) >> 1));
#endif
}

/* a * b / 2^32, rounded down. */
static inline int32_t mct_high_half(int32_t a, int32_t b) {
    return mct_long_product_of(a, b).high;
}

/* x / 2^bits, rounded, halves away from zero. 0 <= bits <= 31. */
static inline int32_t mct_rounding_shift(int32_t x, int32_t bits) {
    const int32_t mask = (int32_t)((UINT32_C(1) << bits) - 1u);
    const int32_t threshold = (mask >> 1) + (x < 0);
    return (x >> bits) + ((x & mask) > threshold);
}

/* x * mult_q31 * 2^(shift - 31), rounded twice as TFLite's reference kernels do.
 * x * 2^max(shift, 0) must fit int32. */
static inline int32_t mct_requantize_q31(int32_t x, int32_t mult_q31, int32_t shift) {
    const int32_t left = mct_max(shift, 0);
    const int32_t scaled = (int32_t)((uint32_t)x << left);
    return mct_rounding_shift(mct_high_mul(scaled, mult_q31), left - shift);
}

/* Like mct_requantize_q31, rounded once, halves away from zero. -31 <= shift <= 30. */
static inline int32_t mct_requantize_once_q31(int32_t x, int32_t mult_q31, int32_t shift) {
    const int64_t product = (int64_t)x * mult_q31;
    const int32_t right = 31 - shift;
    return (int32_t)((product + (INT64_C(1) << (right - 1)) - (product < 0)) >> right);
}

/* y[i] = clamp(value), and bit i of the mask if there is one. Elements are stored in order. */
static inline void mct_clamp_store(int32_t value, int32_t low, int32_t high, int32_t i, int8_t *y,
                                   uint8_t *mask) {
    const int32_t clamped = mct_clamp(value, low, high);
    y[i] = (int8_t)clamped;
    if (mask != NULL) {
        const uint32_t bit = (uint32_t)(value == clamped) << (i & 7);
        const uint32_t before = (i & 7) != 0 ? mask[i >> 3] : 0u;
        mask[i >> 3] = (uint8_t)(before | bit);
    }
}

/* Channel c's sum as int8. */
static inline void mct_requantize_store(const mct_requantize *q, int32_t sum, int32_t c, int32_t i,
                                        int8_t *y, uint8_t *mask) {
    const int32_t m = q->per_channel ? c : 0;
    const int32_t scaled = q->rounds_once
                               ? mct_requantize_once_q31(sum, q->mult_q31[m], q->shift[m])
                               : mct_requantize_q31(sum, q->mult_q31[m], q->shift[m]);
    mct_clamp_store(scaled + q->zero_point, q->low, q->high, i, y, mask);
}

/* Like mct_requantize_store, for a sum that can be beyond int32. It saturates where its
 * requantization and the zero point still fit. */
static inline void mct_requantize_store_wide(const mct_requantize *q, int64_t sum, int32_t c,
                                             int32_t i, int8_t *y, uint8_t *mask) {
    const int32_t left = mct_max(q->shift[q->per_channel ? c : 0], 0);
    const int64_t limit = MCT_SATURATED_SUM >> left;
    mct_requantize_store(q, (int32_t)mct_clamp64(sum, -limit, limit), c, i, y, mask);
}

/* Mixes 32 bits: two rounds of xor-shift and multiply; one to one. */
static inline uint32_t mct_hash32(uint32_t x) {
    x = (x ^ (x >> 16)) * UINT32_C(0x21F0AAAD);
    x = (x ^ (x >> 15)) * UINT32_C(0x735A2D97);
    return x ^ (x >> 15);
}

/* From one element to the next. */
#define MCT_RANDOM_STEP UINT32_C(0x9E3779B9)

/* 16 uniform bits for the element `index` of the node that `key` belongs to. A counter, not a
 * sequence: elements can be computed in any order. */
static inline int32_t mct_random16(uint32_t key, uint32_t index) {
    return (int32_t)(mct_hash32(index * MCT_RANDOM_STEP + key) >> 16);
}

static inline uint32_t mct_node_key(uint32_t step_key, uint32_t salt) {
    return mct_hash32(step_key + salt * UINT32_C(0x85EBCA6B));
}

/* Marsaglia's xorshift32; the state is never 0. */
static inline uint32_t mct_xorshift32(uint32_t state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ (state << 5);
}

/* The shift to the right that multiplies by 2^(shift - 31), held inside what int64 allows: a
 * factor that is too large makes the result too small, never an overflow. */
static inline int32_t mct_shift_right(int32_t shift) {
    return mct_clamp(31 - shift, MCT_MIN_SHIFT_RIGHT, MCT_MAX_SHIFT_RIGHT);
}

/* Like mct_shift_right, for a sum whose unit is 2^finer times smaller: 0 <= finer <= 16. */
static inline int32_t mct_shift_right_finer(int32_t shift, int32_t finer) {
    return mct_clamp(31 - shift, MCT_MIN_SHIFT_RIGHT, MCT_MAX_SHIFT_RIGHT + finer);
}

/* x * mult_q31 / 2^shift_right with MCT_FRACTION_BITS behind the point, rounded down. */
static inline int64_t mct_scale_to_fraction(int32_t x, int32_t mult_q31, int32_t shift_right) {
    return ((int64_t)x * mult_q31) >> (shift_right - MCT_FRACTION_BITS);
}

#define MCT_REACHING_LIMIT (INT64_C(1) << 45)
#define MCT_REACHING_BITS 16

/* x * mult_q31 * 2^(shift - 31) with MCT_FRACTION_BITS behind the point, for int16 gradients. x has
 * `finer` bits that sums otherwise lack. A factor that is too large is held as well, but makes the
 * result larger than any int16, not smaller: a gradient whose exponent is too small would otherwise
 * seem to fit, and keep it. |result| < 2^62. */
static inline int64_t mct_scale_reaching(int32_t x, int32_t mult_q31, int32_t shift,
                                         int32_t finer) {
    const int64_t product = (int64_t)x * mult_q31;
    const int32_t left = MCT_MIN_SHIFT_RIGHT - (31 - shift);
    if (left > 0) {
        const int64_t held = mct_clamp64(product, -MCT_REACHING_LIMIT, MCT_REACHING_LIMIT);
        return held * (INT64_C(1) << mct_min(left, MCT_REACHING_BITS));
    }
    return product >> (mct_shift_right_finer(shift, finer) - MCT_FRACTION_BITS);
}

/* Number of bits of x without leading zeros. */
static inline int32_t mct_bit_length64(uint64_t x) {
    int32_t bits = 0;
    while (x != 0) {
        x >>= 1;
        bits++;
    }
    return bits;
}

#ifdef __cplusplus
}
#endif

#endif
