/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 512 bits: x86 with AVX-512 (F, BW, DQ, VL), dot products by VNNI where it is on. Only
 * mct_simd.h includes this and says what the functions do. */
#ifndef MCT_SIMD_AVX512_H
#define MCT_SIMD_AVX512_H

#include <immintrin.h>

static inline __mmask16 mct_v_first(int32_t count) {
    return (__mmask16)(count >= MCT_LANES ? 0xFFFFu : (1u << count) - 1u);
}

static inline mct_v32 mct_v_load_s8(const int8_t *from, int32_t count) {
    return (mct_v32)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mct_v_first(count), from));
}

static inline mct_v32 mct_v_load_part(const void *from, int32_t count) {
    return (mct_v32)_mm512_maskz_loadu_epi32(mct_v_first(count), from);
}

/* Converted in a register: some processors take tens of cycles to convert and store by a mask. */
static inline void mct_v_store_s8(int8_t *to, mct_v32 v, int32_t count) {
    const mct_v8 bytes = __builtin_convertvector(v, mct_v8);
    if (count >= MCT_LANES) {
        memcpy(to, &bytes, sizeof bytes);
    } else {
        _mm_mask_storeu_epi8(to, mct_v_first(count), (__m128i)bytes);
    }
}

static inline mct_v32 mct_v_dot(mct_v32 sums, mct_v32 a, mct_v32 b) {
#if defined(__AVX512VNNI__)
    return (mct_v32)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#else
    return sums + (mct_v32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#endif
}

#if defined(__AVX512VNNI__)
#define MCT_HAS_DOT4 1

static inline mct_v32 mct_v_dot4(mct_v32 sums, mct_v32 u, mct_v32 s) {
    return (mct_v32)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)u, (__m512i)s);
}
#else
#define MCT_HAS_DOT4 0
#endif

#if defined(__AVX512VBMI__)
#define MCT_HAS_LOOKUP 1

/* For indexes without their highest bit, which chooses one of two halves. */
typedef struct {
    __m512i quarters[4];
} mct_v_table;

static inline mct_v_table mct_v_table_of(const int8_t *table) {
    mct_v_table held;
    for (int i = 0; i < 4; i++) {
        held.quarters[i] = _mm512_loadu_si512(table + 64 * i);
    }
    return held;
}

static inline mct_v32 mct_v_lookup(const mct_v_table *table, mct_v32 x) {
    const __m512i *q = table->quarters, at = (__m512i)x;
    const __m512i below = _mm512_permutex2var_epi8(q[0], at, q[1]);
    const __m512i above = _mm512_permutex2var_epi8(q[2], at, q[3]);
    return (mct_v32)_mm512_mask_blend_epi8(_mm512_movepi8_mask(at), above, below);
}
#endif

static inline int32_t mct_v_total(mct_v32 v) {
    return _mm512_reduce_add_epi32((__m512i)v);
}

typedef mct_v32 mct_v_parts;

static inline void mct_v_add_dot(mct_v_parts *parts, mct_v32 a, mct_v32 b) {
    *parts = mct_v_dot(*parts, a, b);
}

static inline mct_v32 mct_v_sum(mct_v_parts parts) {
    return parts;
}

/* Squares of four in every quarter, then the quarters. */
static inline void mct_v_turn(mct_v32 v[MCT_LANES]) {
    __m512i q[MCT_LANES];
    for (int i = 0; i < MCT_LANES; i += 4) {
        const __m512i a = (__m512i)v[i], b = (__m512i)v[i + 1];
        const __m512i c = (__m512i)v[i + 2], d = (__m512i)v[i + 3];
        const __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
        const __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
        q[i] = _mm512_unpacklo_epi64(ab_low, cd_low);
        q[i + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
        q[i + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
        q[i + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
    }
    for (int i = 0; i < 4; i++) { /* q[i + 4 * j] holds the lanes i, 4 + i, 8 + i, 12 + i of four */
        const __m512i low_even = _mm512_shuffle_i32x4(q[i], q[i + 4], 0x88);
        const __m512i low_odd = _mm512_shuffle_i32x4(q[i], q[i + 4], 0xDD);
        const __m512i high_even = _mm512_shuffle_i32x4(q[i + 8], q[i + 12], 0x88);
        const __m512i high_odd = _mm512_shuffle_i32x4(q[i + 8], q[i + 12], 0xDD);
        v[i] = (mct_v32)_mm512_shuffle_i32x4(low_even, high_even, 0x88);
        v[i + 8] = (mct_v32)_mm512_shuffle_i32x4(low_even, high_even, 0xDD);
        v[i + 4] = (mct_v32)_mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
        v[i + 12] = (mct_v32)_mm512_shuffle_i32x4(low_odd, high_odd, 0xDD);
    }
}

static inline mct_v32 mct_v_blend(mct_vu64 even, mct_vu64 odd) {
    return (mct_v32)_mm512_mask_blend_epi32(0xAAAA, (__m512i)even, (__m512i)odd);
}

static inline mct_v32 mct_v_min(mct_v32 a, mct_v32 b) {
    return (mct_v32)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

static inline mct_v32 mct_v_max(mct_v32 a, mct_v32 b) {
    return (mct_v32)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

/* Four lanes of each quarter of each vector, then the quarters. */
static inline mct_v32 mct_v_bytes(const mct_v32 v[4]) {
    const mct_v32 place = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const __m512i first = _mm512_packs_epi32((__m512i)v[0], (__m512i)v[1]);
    const __m512i second = _mm512_packs_epi32((__m512i)v[2], (__m512i)v[3]);
    return (mct_v32)_mm512_permutexvar_epi32((__m512i)place, _mm512_packs_epi16(first, second));
}

static inline mct_v32 mct_v_clamp_bytes(mct_v32 v, int32_t low, int32_t high) {
    const mct_four_v8 least = (int8_t)low - (mct_four_v8){0},
                      most = (int8_t)high - (mct_four_v8){0};
    return (mct_v32)_mm512_min_epi8(_mm512_max_epi8((__m512i)v, (__m512i)least), (__m512i)most);
}

static inline mct_v64 mct_v_mul_even(mct_v32 a, mct_v32 b) {
    return (mct_v64)_mm512_mul_epi32((__m512i)a, (__m512i)b);
}

static inline mct_v64 mct_v_mul_even_unsigned(mct_v32 a, mct_v32 b) {
    return (mct_v64)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

static inline mct_v32 mct_v_odd_down(mct_v32 v) {
    return (mct_v32)_mm512_mask_shuffle_epi32((__m512i)v, 0x5555, (__m512i)v, 0xF5);
}

static inline mct_v32 mct_v_upper(mct_v64 even, mct_v64 odd) {
    return (mct_v32)_mm512_mask_shuffle_epi32((__m512i)odd, 0x5555, (__m512i)even, 0xF5);
}

static inline mct_v64 mct_v_shift_right64(mct_v64 v, mct_v64 bits) {
    return v >> bits;
}

static inline mct_v64 mct_v_clamp64(mct_v64 v, int64_t low, int64_t high) {
    const __m512i above = _mm512_max_epi64((__m512i)v, _mm512_set1_epi64(low));
    return (mct_v64)_mm512_min_epi64(above, _mm512_set1_epi64(high));
}

static inline uint32_t mct_v_bits(mct_v32 truth) {
    return _mm512_movepi32_mask((__m512i)truth);
}

static inline mct_v32 mct_v_of_bits(uint32_t bits) {
    return (mct_v32)_mm512_movm_epi32((__mmask16)bits);
}

#endif
