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

static inline void mct_v_store_s8(int8_t *to, mct_v32 v, int32_t count) {
    _mm512_mask_cvtepi32_storeu_epi8(to, mct_v_first(count), (__m512i)v);
}

static inline void mct_v_store_s16(int16_t *to, mct_v32 v) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16((__m512i)v));
}

static inline mct_v32 mct_v_dot(mct_v32 sums, mct_v32 a, mct_v32 b) {
#if defined(__AVX512VNNI__)
    return (mct_v32)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#else
    return sums + (mct_v32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#endif
}

typedef mct_v32 mct_v_parts;

static inline void mct_v_add_dot(mct_v_parts *parts, mct_v32 a, mct_v32 b) {
    *parts = mct_v_dot(*parts, a, b);
}

static inline mct_v32 mct_v_sum(mct_v_parts parts) {
    return parts;
}

static inline mct_v32 mct_v_min(mct_v32 a, mct_v32 b) {
    return (mct_v32)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

static inline mct_v32 mct_v_max(mct_v32 a, mct_v32 b) {
    return (mct_v32)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

static inline mct_v64 mct_v_mul_even(mct_v32 a, mct_v32 b) {
    return (mct_v64)_mm512_mul_epi32((__m512i)a, (__m512i)b);
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

#endif
