/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 128 bits: every x86 with 64 bits, NEON on AArch64, and any other machine as the compiler
 * sees fit. Only mct_simd.h includes this and says what the functions do. */
#ifndef MCT_SIMD_128_H
#define MCT_SIMD_128_H

#if defined(__x86_64__)
#include <smmintrin.h> /* up to SSE4.1, whether it is on or not */
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static inline mct_v32 mct_v_load_s8(const int8_t *from, int32_t count) {
    mct_v8 v = {0};
    if (count >= MCT_LANES) {
        memcpy(&v, from, sizeof v);
    } else {
        memcpy(&v, from, (size_t)count);
    }
    return __builtin_convertvector(v, mct_v32);
}

static inline void mct_v_store_s8(int8_t *to, mct_v32 v, int32_t count) {
    const mct_v8 bytes = __builtin_convertvector(v, mct_v8);
    if (count >= MCT_LANES) {
        memcpy(to, &bytes, sizeof bytes);
    } else {
        memcpy(to, &bytes, (size_t)count);
    }
}

#define MCT_HAS_DOT4 0 /* sdot is in mct_dot.h: not every AArch64 has it */

static inline mct_v32 mct_v_dot(mct_v32 sums, mct_v32 a, mct_v32 b) {
#if defined(__x86_64__)
    return sums + (mct_v32)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    const int16x8_t as = (int16x8_t)a;
    const int16x8_t bs = (int16x8_t)b;
    const int32x4_t low = vmull_s16(vget_low_s16(as), vget_low_s16(bs));
    return sums + (mct_v32)vpaddq_s32(low, vmull_high_s16(as, bs));
#else
    const mct_v32 even_a = (mct_v32)((mct_vu32)a << 16) >> 16;
    const mct_v32 even_b = (mct_v32)((mct_vu32)b << 16) >> 16;
    return sums + even_a * even_b + (a >> 16) * (b >> 16);
#endif
}

#if defined(__aarch64__)
/* Lanes in two halves: multiplying and adding are one instruction, adding neighbours comes last. */
typedef struct {
    int32x4_t low, high;
} mct_v_parts;

static inline void mct_v_add_dot(mct_v_parts *parts, mct_v32 a, mct_v32 b) {
    const int16x8_t as = (int16x8_t)a;
    const int16x8_t bs = (int16x8_t)b;
    parts->low = vmlal_s16(parts->low, vget_low_s16(as), vget_low_s16(bs));
    parts->high = vmlal_high_s16(parts->high, as, bs);
}

static inline mct_v32 mct_v_sum(mct_v_parts parts) {
    return (mct_v32)vpaddq_s32(parts.low, parts.high);
}
#else
typedef mct_v32 mct_v_parts;

static inline void mct_v_add_dot(mct_v_parts *parts, mct_v32 a, mct_v32 b) {
    *parts = mct_v_dot(*parts, a, b);
}

static inline mct_v32 mct_v_sum(mct_v_parts parts) {
    return parts;
}
#endif

static inline mct_v32 mct_v_min(mct_v32 a, mct_v32 b) {
    const mct_v32 less = a < b;
    return (a & less) | (b & ~less);
}

static inline mct_v32 mct_v_max(mct_v32 a, mct_v32 b) {
    const mct_v32 less = a < b;
    return (b & less) | (a & ~less);
}

static inline mct_v32 mct_v_bytes(const mct_v32 v[4]) {
    mct_v8 bytes[4];
    for (int i = 0; i < 4; i++) {
        const mct_v32 above = mct_v_max(v[i], (mct_v32){0} - 128);
        bytes[i] = __builtin_convertvector(mct_v_min(above, (mct_v32){0} + 127), mct_v8);
    }
    mct_v32 all;
    memcpy(&all, bytes, sizeof all);
    return all;
}

static inline mct_v32 mct_v_clamp_bytes(mct_v32 v, int32_t low, int32_t high) {
    const mct_four_v8 x = (mct_four_v8)v;
    const mct_four_v8 least = (int8_t)low - (mct_four_v8){0},
                      most = (int8_t)high - (mct_four_v8){0};
    const mct_four_v8 under = x<least, over = x> most;
    return (mct_v32)((x & ~(under | over)) | (least & under) | (most & over));
}

static inline mct_v64 mct_v_mul_even(mct_v32 a, mct_v32 b) {
#if defined(__SSE4_1__)
    return (mct_v64)_mm_mul_epi32((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    return (mct_v64)vmull_s32(vmovn_s64((int64x2_t)a), vmovn_s64((int64x2_t)b));
#else
    return ((mct_v64)((mct_vu64)a << 32) >> 32) * ((mct_v64)((mct_vu64)b << 32) >> 32);
#endif
}

static inline mct_v64 mct_v_mul_even_unsigned(mct_v32 a, mct_v32 b) {
#if defined(__x86_64__)
    return (mct_v64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#elif defined(__aarch64__)
    return (mct_v64)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#else
    return (mct_v64)(((mct_vu64)a << 32 >> 32) * ((mct_vu64)b << 32 >> 32));
#endif
}

static inline mct_v32 mct_v_odd_down(mct_v32 v) {
    return (mct_v32)((mct_vu64)v >> 32);
}

static inline mct_v32 mct_v_upper(mct_v64 even, mct_v64 odd) {
    return (mct_v32)(((mct_vu64)even >> 32) | ((mct_vu64)odd >> 32 << 32));
}

static inline mct_v64 mct_v_shift_right64(mct_v64 v, mct_v64 bits) {
    return v >> bits;
}

static inline mct_v64 mct_v_clamp64(mct_v64 v, int64_t low, int64_t high) {
    const mct_v64 under = v < low;
    const mct_v64 over = v > high;
    return (v & ~(under | over)) | (low & under) | (high & over);
}

static inline uint32_t mct_v_bits(mct_v32 truth) {
#if defined(__x86_64__)
    return (uint32_t)_mm_movemask_ps((__m128)truth);
#elif defined(__aarch64__)
    const uint32_t place[MCT_LANES] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32((uint32x4_t)truth, vld1q_u32(place)));
#else
    uint32_t bits = 0;
    for (uint32_t l = 0; l < MCT_LANES; l++) {
        bits |= (uint32_t)(truth[l] & 1) << l;
    }
    return bits;
#endif
}

#endif
