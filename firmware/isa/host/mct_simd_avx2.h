/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of 256 bits: x86 with AVX2. Only mct_simd.h includes this and says what the functions do. */
#ifndef MCT_SIMD_AVX2_H
#define MCT_SIMD_AVX2_H

#include <immintrin.h>

static inline mct_v32 mct_v_load_s8(const int8_t *from, int32_t count) {
    int64_t bytes = 0;
    if (count >= MCT_LANES) {
        memcpy(&bytes, from, sizeof bytes);
    } else {
        memcpy(&bytes, from, (size_t)count);
    }
    return (mct_v32)_mm256_cvtepi8_epi32(_mm_set1_epi64x(bytes));
}

static inline mct_v32 mct_v_load_part(const void *from, int32_t count) {
    const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (mct_v32)_mm256_maskload_epi32(from,
                                          _mm256_cmpgt_epi32(_mm256_set1_epi32(count), place));
}

static inline void mct_v_store_s8(int8_t *to, mct_v32 v, int32_t count) {
    const __m256i lowest = _mm256_set1_epi32(0x0C080400); /* byte 0 of each lane, in each half */
    const __m256i halves = _mm256_shuffle_epi8((__m256i)v, lowest);
    const __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    if (count >= MCT_LANES) {
        memcpy(to, &bytes, MCT_LANES);
    } else {
        memcpy(to, &bytes, (size_t)count);
    }
}

static inline mct_v32 mct_v_load_u4(const uint8_t *from, int32_t count) {
    int32_t eight = 0;
    if (count >= MCT_LANES) {
        memcpy(&eight, from, sizeof eight);
    } else {
        memcpy(&eight, from, (size_t)count / 2);
    }
    const __m256i place = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    return (mct_v32)_mm256_srlv_epi32(_mm256_set1_epi32(eight), place) & 15;
}

static inline void mct_v_store_u4(uint8_t *to, mct_v32 v, int32_t count) {
    const __m256i pairs = (__m256i)(v | (mct_v32)((mct_vu64)v >> 28));
    const __m256i lowest = _mm256_set1_epi64x(0x0800); /* byte 0 of each pair, in each half */
    const __m256i halves = _mm256_shuffle_epi8(pairs, lowest);
    const __m128i bytes =
        _mm_unpacklo_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    const int32_t eight = _mm_cvtsi128_si32(bytes);
    if (count >= MCT_LANES) {
        memcpy(to, &eight, sizeof eight);
    } else {
        memcpy(to, &eight, (size_t)count / 2);
    }
}

static inline mct_v32 mct_v_dot(mct_v32 sums, mct_v32 a, mct_v32 b) {
    return sums + (mct_v32)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

#if defined(__AVXVNNI__)
#define MCT_HAS_DOT4 1

static inline mct_v32 mct_v_dot4(mct_v32 sums, mct_v32 u, mct_v32 s) {
    return (mct_v32)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)u, (__m256i)s);
}
#else
#define MCT_HAS_DOT4 0
#endif

static inline int32_t mct_v_total(mct_v32 v) {
    const __m256i all = (__m256i)v;
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xB1)));
}

typedef mct_v32 mct_v_parts;

static inline void mct_v_add_dot(mct_v_parts *parts, mct_v32 a, mct_v32 b) {
    *parts = mct_v_dot(*parts, a, b);
}

static inline mct_v32 mct_v_sum(mct_v_parts parts) {
    return parts;
}

/* Squares of four in each half, then the halves. */
static inline void mct_v_turn(mct_v32 v[MCT_LANES]) {
    __m256i q[MCT_LANES];
    for (int i = 0; i < MCT_LANES; i += 4) {
        const __m256i a = (__m256i)v[i], b = (__m256i)v[i + 1];
        const __m256i c = (__m256i)v[i + 2], d = (__m256i)v[i + 3];
        const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
        const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
        q[i] = _mm256_unpacklo_epi64(ab_low, cd_low);
        q[i + 1] = _mm256_unpackhi_epi64(ab_low, cd_low);
        q[i + 2] = _mm256_unpacklo_epi64(ab_high, cd_high);
        q[i + 3] = _mm256_unpackhi_epi64(ab_high, cd_high);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = (mct_v32)_mm256_permute2x128_si256(q[i], q[i + 4], 0x20);
        v[i + 4] = (mct_v32)_mm256_permute2x128_si256(q[i], q[i + 4], 0x31);
    }
}

static inline mct_v32 mct_v_blend(mct_vu64 even, mct_vu64 odd) {
    return (mct_v32)_mm256_blend_epi32((__m256i)even, (__m256i)odd, 0xAA);
}

static inline mct_v32 mct_v_min(mct_v32 a, mct_v32 b) {
    return (mct_v32)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

static inline mct_v32 mct_v_max(mct_v32 a, mct_v32 b) {
    return (mct_v32)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

/* Four lanes of each half of each vector, then the halves. */
static inline mct_v32 mct_v_bytes(const mct_v32 v[4]) {
    const __m256i place = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i first = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]);
    const __m256i second = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]);
    return (mct_v32)_mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), place);
}

static inline mct_v32 mct_v_clamp_bytes(mct_v32 v, int32_t low, int32_t high) {
    const __m256i above = _mm256_max_epi8((__m256i)v, _mm256_set1_epi8((int8_t)low));
    return (mct_v32)_mm256_min_epi8(above, _mm256_set1_epi8((int8_t)high));
}

static inline mct_v64 mct_v_mul_even(mct_v32 a, mct_v32 b) {
    return (mct_v64)_mm256_mul_epi32((__m256i)a, (__m256i)b);
}

static inline mct_v64 mct_v_mul_even_unsigned(mct_v32 a, mct_v32 b) {
    return (mct_v64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

static inline mct_v32 mct_v_odd_down(mct_v32 v) {
    return (mct_v32)_mm256_shuffle_epi32((__m256i)v, 0xF5);
}

static inline mct_v32 mct_v_upper(mct_v64 even, mct_v64 odd) {
    const __m256i down = _mm256_shuffle_epi32((__m256i)even, 0xF5);
    return (mct_v32)_mm256_blend_epi32(down, (__m256i)odd, 0xAA);
}

/* AVX2 only shifts unsigned lanes: move the sign to where the shift puts it, and subtract. */
static inline mct_v64 mct_v_shift_right64(mct_v64 v, mct_v64 bits) {
    const mct_vu64 sign = (mct_vu64){0} + (UINT64_C(1) << 63);
    const mct_vu64 shifted = ((mct_vu64)v ^ sign) >> (mct_vu64)bits;
    return (mct_v64)(shifted - (sign >> (mct_vu64)bits));
}

static inline mct_v64 mct_v_clamp64(mct_v64 v, int64_t low, int64_t high) {
    const mct_v64 under = v < low;
    const mct_v64 over = v > high;
    return (v & ~(under | over)) | (low & under) | (high & over);
}

static inline uint32_t mct_v_bits(mct_v32 truth) {
    return (uint32_t)_mm256_movemask_ps((__m256)truth);
}

#endif
