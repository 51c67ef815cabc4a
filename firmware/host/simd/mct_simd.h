/* The seam between host bodies and instruction sets: a handful of vector operations.
 *
 * Vectors are those of GNU C (gcc, clang, zig cc), whose operators work lane by lane; only what C
 * has no operator for is chosen here, by the compiler's macros: AVX-512 (with VNNI where it is on),
 * AVX2, SSE, NEON, and plain C for the rest. All are exact, so all give the same bits. Lanes are
 * numbered from the lowest address; little-endian machines only. */
#ifndef MCT_SIMD_H
#define MCT_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define MCT_LANES 16
#elif defined(__AVX2__)
#define MCT_LANES 8
#else
#define MCT_LANES 4
#endif

typedef int32_t mct_v32 __attribute__((vector_size(4 * MCT_LANES)));
typedef uint32_t mct_vu32 __attribute__((vector_size(4 * MCT_LANES)));
typedef int64_t mct_v64 __attribute__((vector_size(4 * MCT_LANES))); /* half as many lanes */
typedef uint64_t mct_vu64 __attribute__((vector_size(4 * MCT_LANES)));
typedef int8_t mct_v8 __attribute__((vector_size(MCT_LANES)));
typedef int16_t mct_v16 __attribute__((vector_size(2 * MCT_LANES)));
typedef uint8_t mct_half_vu8 __attribute__((vector_size(MCT_LANES / 2)));

static inline mct_v32 mct_v_load(const void *from) {
    mct_v32 v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void mct_v_store(void *to, mct_v32 v) {
    memcpy(to, &v, sizeof v);
}
static inline mct_v32 mct_v_all(int32_t x) {
    return x - (mct_v32){0};
}

/* The first `count` of int32; the lanes after them are 0. count > 0 */
static inline mct_v32 mct_v_load_part(const int32_t *from, int32_t count) {
    mct_v32 v = {0};
    if (count >= MCT_LANES) {
        memcpy(&v, from, sizeof v);
    } else {
        memcpy(&v, from, (size_t)count * sizeof *from);
    }
    return v;
}
/* The first `count` int8 as int32; the lanes after them are 0. count > 0 */
static inline mct_v32 mct_v_load_s8(const int8_t *from, int32_t count) {
#if MCT_LANES == 16
    const __mmask16 used = count >= 16 ? 0xFFFF : (__mmask16)((1u << count) - 1u);
    return (mct_v32)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(used, from));
#else
    mct_v8 v = {0};
    if (count >= MCT_LANES) {
        memcpy(&v, from, sizeof v);
    } else {
        memcpy(&v, from, (size_t)count);
    }
#if MCT_LANES == 8
    return (mct_v32)_mm256_cvtepi8_epi32(_mm_set1_epi64x((int64_t)v));
#else
    return __builtin_convertvector(v, mct_v32);
#endif
#endif
}
/* The lowest byte of each of the first `count` lanes. */
static inline void mct_v_store_s8(int8_t *to, mct_v32 v, int32_t count) {
#if MCT_LANES == 16
    const __mmask16 used = count >= 16 ? 0xFFFF : (__mmask16)((1u << count) - 1u);
    _mm512_mask_cvtepi32_storeu_epi8(to, used, (__m512i)v);
#else
#if MCT_LANES == 8
    const __m256i lowest = _mm256_set1_epi32(0x0C080400);
    const __m256i halves = _mm256_shuffle_epi8((__m256i)v, lowest);
    const __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
#else
    const mct_v8 bytes = __builtin_convertvector(v, mct_v8);
#endif
    if (count >= MCT_LANES) {
        memcpy(to, &bytes, MCT_LANES);
    } else {
        memcpy(to, &bytes, (size_t)count);
    }
#endif
}
/* The lower half of each lane: MCT_LANES int16. */
static inline void mct_v_store_s16(int16_t *to, mct_v32 v) {
#if MCT_LANES == 16
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16((__m512i)v));
#elif MCT_LANES == 8
    const __m128i low = _mm256_castsi256_si128((__m256i)v);
    const __m128i high = _mm256_extracti128_si256((__m256i)v, 1);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_packs_epi32(low, high));
#else
    const mct_v16 lower = __builtin_convertvector(v, mct_v16);
    memcpy(to, &lower, sizeof lower);
#endif
}

/* sums[l] + a[2l] * b[2l] + a[2l + 1] * b[2l + 1] for int16 a and b: the dot product of pairs.
 * Not for a pair of products of -32768. */
static inline mct_v32 mct_v_dot(mct_v32 sums, mct_v32 a, mct_v32 b) {
#if MCT_LANES == 16 && defined(__AVX512VNNI__)
    return (mct_v32)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#elif MCT_LANES == 16
    return sums + (mct_v32)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif MCT_LANES == 8
    return sums + (mct_v32)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return sums + (mct_v32)_mm_madd_epi16((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    const int16x8_t as = (int16x8_t)a;
    const int16x8_t bs = (int16x8_t)b;
    const int32x4_t low = vmull_s16(vget_low_s16(as), vget_low_s16(bs));
    const int32x4_t high = vmull_high_s16(as, bs);
    return sums + (mct_v32)vpaddq_s32(low, high);
#else
    const mct_v32 even =
        ((mct_v32)((mct_vu32)a << 16) >> 16) * ((mct_v32)((mct_vu32)b << 16) >> 16);
    return sums + even + (a >> 16) * (b >> 16);
#endif
}

static inline mct_v32 mct_v_min(mct_v32 a, mct_v32 b) {
#if MCT_LANES == 16
    return (mct_v32)_mm512_min_epi32((__m512i)a, (__m512i)b);
#elif MCT_LANES == 8
    return (mct_v32)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    const mct_v32 less = a < b;
    return (a & less) | (b & ~less);
#endif
}
static inline mct_v32 mct_v_max(mct_v32 a, mct_v32 b) {
#if MCT_LANES == 16
    return (mct_v32)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif MCT_LANES == 8
    return (mct_v32)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const mct_v32 less = a < b;
    return (b & less) | (a & ~less);
#endif
}

/* The int64 products of the lanes 0, 2, 4 … */
static inline mct_v64 mct_v_mul_even(mct_v32 a, mct_v32 b) {
#if MCT_LANES == 16
    return (mct_v64)_mm512_mul_epi32((__m512i)a, (__m512i)b);
#elif MCT_LANES == 8
    return (mct_v64)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#elif defined(__SSE4_1__)
    return (mct_v64)_mm_mul_epi32((__m128i)a, (__m128i)b);
#else
    return ((mct_v64)((mct_vu64)a << 32) >> 32) * ((mct_v64)((mct_vu64)b << 32) >> 32);
#endif
}
/* The lanes 1, 3, 5 … as lanes 0, 2, 4 …, with 0 between: unsigned int64. */
static inline mct_v32 mct_v_odd(mct_v32 v) {
    return (mct_v32)((mct_vu64)v >> 32);
}
static inline mct_v32 mct_v_even(mct_v32 v) {
    return (mct_v32)((mct_vu64)v & UINT64_C(0xFFFFFFFF));
}
/* The lowest 32 bits of even[0], odd[0], even[1] … */
static inline mct_v32 mct_v_interleave(mct_v64 even, mct_v64 odd) {
    const mct_vu64 low = (mct_vu64){0} + UINT64_C(0xFFFFFFFF);
    return (mct_v32)(((mct_vu64)even & low) | ((mct_vu64)odd << 32));
}

/* v >> bits, lane by lane, keeping the sign. */
static inline mct_v64 mct_v_shift_right64(mct_v64 v, mct_v64 bits) {
#if MCT_LANES == 8
    /* AVX2 only shifts unsigned lanes: move the sign to where the shift puts it, and subtract */
    const mct_vu64 sign = (mct_vu64){0} + (UINT64_C(1) << 63);
    const mct_vu64 shifted = ((mct_vu64)v ^ sign) >> (mct_vu64)bits;
    return (mct_v64)(shifted - (sign >> (mct_vu64)bits));
#else
    return v >> bits;
#endif
}
static inline mct_v64 mct_v_clamp64(mct_v64 v, int64_t low, int64_t high) {
    const mct_v64 lows = low - (mct_v64){0};
    const mct_v64 highs = high - (mct_v64){0};
#if MCT_LANES == 16
    return (mct_v64)_mm512_min_epi64(_mm512_max_epi64((__m512i)v, (__m512i)lows), (__m512i)highs);
#else
    const mct_v64 under = v < lows;
    const mct_v64 over = v > highs;
    return (v & ~(under | over)) | (lows & under) | (highs & over);
#endif
}

/* mct_high_mul: a * b / 2^31, rounded half up. */
static inline mct_v32 mct_v_high_mul(mct_v32 a, mct_v32 b) {
#if defined(__ARM_NEON) && defined(__aarch64__)
    return (mct_v32)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
#else
    const int64_t half = INT64_C(1) << 30;
    const mct_v64 even = mct_v_mul_even(a, b) + half;
    const mct_v64 odd = mct_v_mul_even(mct_v_odd(a), mct_v_odd(b)) + half;
    return mct_v_interleave((mct_v64)((mct_vu64)even >> 31), (mct_v64)((mct_vu64)odd >> 31));
#endif
}

/* mct_rounding_shift: v / 2^bits, rounded, halves away from zero. */
static inline mct_v32 mct_v_rounding_shift(mct_v32 v, mct_v32 bits) {
    const mct_v32 mask = (mct_v32)(((mct_vu32)mct_v_all(1) << (mct_vu32)bits) - 1u);
    const mct_v32 threshold = (mask >> 1) - (v < 0); /* true is -1 */
    return (v >> bits) - ((v & mask) > threshold);
}

/* Bit l is set where lane l is true (-1). */
static inline uint32_t mct_v_bits(mct_v32 truth) {
#if MCT_LANES == 16
    return _mm512_movepi32_mask((__m512i)truth);
#elif MCT_LANES == 8
    return (uint32_t)_mm256_movemask_ps((__m256)truth);
#elif defined(__SSE2__)
    return (uint32_t)_mm_movemask_ps((__m128)truth);
#else
    uint32_t bits = 0;
    for (uint32_t l = 0; l < MCT_LANES; l++) {
        bits |= (uint32_t)(truth[l] & 1) << l;
    }
    return bits;
#endif
}

/* The pairs (first[l], second[l]) of int16. */
static inline mct_v32 mct_v_pair(mct_v32 first, mct_v32 second) {
    return (first & 0xFFFF) | (mct_v32)((mct_vu32)second << 16);
}

/* first, first + 1, … */
static inline mct_vu32 mct_v_count(int32_t first) {
    const uint32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    mct_vu32 v;
    memcpy(&v, numbers, sizeof v);
    return v + (uint32_t)first;
}

/* mct_random16 of the elements `index`. */
static inline mct_v32 mct_v_random16(uint32_t key, mct_vu32 index) {
    mct_vu32 x = index * UINT32_C(0x9E3779B9) + key;
    x = (x ^ (x >> 16)) * UINT32_C(0x21F0AAAD);
    x = (x ^ (x >> 15)) * UINT32_C(0x735A2D97);
    return (mct_v32)((x ^ (x >> 15)) >> 16);
}

#endif
