/* AVX-512, VNNI and AVX-VNNI in plain C: what each instruction does that mct_simd_avx512.h and
 * mct_simd_avx2.h ask for, so that every x86 machine with AVX2 runs these bodies.
 *
 * Compiled with -mavx2 and -include: the system's headers come first, then names that the bodies use
 * mean the functions below. PLAIN_AVX512, PLAIN_VNNI (with VBMI), PLAIN_AVX_VNNI choose what the
 * compiler seems to have. Without any, the functions are only defined: plain_vectors.c compares each
 * with the instruction. Lanes are numbered as in Intel's Intrinsics Guide. */
#ifndef PLAIN_VECTORS_H
#define PLAIN_VECTORS_H

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef union {
    __m512i v;
    int8_t s8[64];
    uint8_t u8[64];
    int16_t s16[32];
    int32_t s32[16];
    uint32_t u32[16];
    int64_t s64[8];
} plain_512;

static inline __m512i plain_cvtepi8_epi32(__m128i a) {
    int8_t from[16];
    plain_512 r;
    memcpy(from, &a, sizeof from);
    for (int i = 0; i < 16; i++) {
        r.s32[i] = from[i];
    }
    return r.v;
}

static inline __m128i plain_maskz_loadu_epi8(__mmask16 k, const void *from) {
    int8_t to[16];
    __m128i r;
    for (int i = 0; i < 16; i++) { /* what the mask leaves out is not touched */
        to[i] = k >> i & 1 ? ((const int8_t *)from)[i] : 0;
    }
    memcpy(&r, to, sizeof r);
    return r;
}

static inline __m512i plain_maskz_loadu_epi32(__mmask16 k, const void *from) {
    plain_512 r;
    for (int i = 0; i < 16; i++) {
        r.s32[i] = 0;
        if (k >> i & 1) {
            memcpy(&r.s32[i], (const int8_t *)from + 4 * i, 4);
        }
    }
    return r.v;
}

static inline void plain_mask_storeu_epi8(void *to, __mmask16 k, __m128i a) {
    int8_t from[16];
    memcpy(from, &a, sizeof from);
    for (int i = 0; i < 16; i++) {
        if (k >> i & 1) {
            ((int8_t *)to)[i] = from[i];
        }
    }
}

static inline __m512i plain_loadu_si512(const void *from) {
    plain_512 r;
    memcpy(&r, from, sizeof r);
    return r.v;
}

static inline __m512i plain_dpwssd_epi32(__m512i sums, __m512i a, __m512i b) {
    const plain_512 x = {a}, y = {b};
    plain_512 r = {sums};
    for (int i = 0; i < 32; i++) { /* modulo 2^32 */
        r.u32[i / 2] += (uint32_t)(x.s16[i] * y.s16[i]);
    }
    return r.v;
}

static inline __m512i plain_madd_epi16(__m512i a, __m512i b) {
    return plain_dpwssd_epi32((__m512i){0}, a, b);
}

static inline __m512i plain_dpbusd_epi32(__m512i sums, __m512i a, __m512i b) {
    const plain_512 x = {a}, y = {b};
    plain_512 r = {sums};
    for (int i = 0; i < 64; i++) {
        r.u32[i / 4] += (uint32_t)(x.u8[i] * y.s8[i]);
    }
    return r.v;
}

static inline __m256i plain_dpbusd_avx_epi32(__m256i sums, __m256i a, __m256i b) {
    plain_512 s = {{0}}, x = {{0}}, y = {{0}};
    memcpy(&s, &sums, sizeof sums);
    memcpy(&x, &a, sizeof a);
    memcpy(&y, &b, sizeof b);
    s.v = plain_dpbusd_epi32(s.v, x.v, y.v);
    memcpy(&sums, &s, sizeof sums);
    return sums;
}

static inline __m512i plain_permutex2var_epi8(__m512i a, __m512i at, __m512i b) {
    const plain_512 first = {a}, second = {b}, index = {at};
    plain_512 r;
    for (int i = 0; i < 64; i++) {
        const int j = index.u8[i] & 63;
        r.s8[i] = index.u8[i] & 64 ? second.s8[j] : first.s8[j];
    }
    return r.v;
}

static inline __m512i plain_mask_blend_epi8(__mmask64 k, __m512i a, __m512i b) {
    const plain_512 first = {a}, second = {b};
    plain_512 r;
    for (int i = 0; i < 64; i++) {
        r.s8[i] = k >> i & 1 ? second.s8[i] : first.s8[i];
    }
    return r.v;
}

static inline __m512i plain_mask_blend_epi32(__mmask16 k, __m512i a, __m512i b) {
    const plain_512 first = {a}, second = {b};
    plain_512 r;
    for (int i = 0; i < 16; i++) {
        r.s32[i] = k >> i & 1 ? second.s32[i] : first.s32[i];
    }
    return r.v;
}

static inline __mmask64 plain_movepi8_mask(__m512i a) {
    const plain_512 x = {a};
    __mmask64 k = 0;
    for (int i = 0; i < 64; i++) {
        k |= (__mmask64)(x.s8[i] < 0) << i;
    }
    return k;
}

static inline __mmask16 plain_movepi32_mask(__m512i a) {
    const plain_512 x = {a};
    uint32_t k = 0;
    for (int i = 0; i < 16; i++) {
        k |= (uint32_t)(x.s32[i] < 0) << i;
    }
    return (__mmask16)k;
}

static inline __m512i plain_movm_epi32(__mmask16 k) {
    plain_512 r;
    for (int i = 0; i < 16; i++) {
        r.s32[i] = k >> i & 1 ? -1 : 0;
    }
    return r.v;
}

static inline int plain_reduce_add_epi32(__m512i a) {
    const plain_512 x = {a};
    uint32_t total = 0;
    for (int i = 0; i < 16; i++) {
        total += x.u32[i];
    }
    return (int)total;
}

/* Of every quarter: two lanes of each, alternating, from lane `from` on. */
static inline __m512i plain_unpack32(__m512i a, __m512i b, int from) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 16; i++) {
        const int lane = i / 4 * 4 + from + i % 4 / 2;
        r.s32[i] = i % 2 ? y.s32[lane] : x.s32[lane];
    }
    return r.v;
}

static inline __m512i plain_unpack64(__m512i a, __m512i b, int from) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 8; i++) {
        const int lane = i / 2 * 2 + from;
        r.s64[i] = i % 2 ? y.s64[lane] : x.s64[lane];
    }
    return r.v;
}

static inline __m512i plain_unpacklo_epi32(__m512i a, __m512i b) {
    return plain_unpack32(a, b, 0);
}
static inline __m512i plain_unpackhi_epi32(__m512i a, __m512i b) {
    return plain_unpack32(a, b, 2);
}
static inline __m512i plain_unpacklo_epi64(__m512i a, __m512i b) {
    return plain_unpack64(a, b, 0);
}
static inline __m512i plain_unpackhi_epi64(__m512i a, __m512i b) {
    return plain_unpack64(a, b, 1);
}

/* Two quarters of a, then two of b, each chosen by two bits. */
static inline __m512i plain_shuffle_i32x4(__m512i a, __m512i b, int quarters) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 4; i++) {
        const int quarter = quarters >> 2 * i & 3;
        memcpy(&r.s32[4 * i], i < 2 ? &x.s32[4 * quarter] : &y.s32[4 * quarter], 16);
    }
    return r.v;
}

/* Of every quarter: four lanes of each, clamped to int16. */
static inline __m512i plain_packs_epi32(__m512i a, __m512i b) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 32; i++) {
        const int lane = i / 8 * 4 + i % 4;
        const int32_t from = i % 8 < 4 ? x.s32[lane] : y.s32[lane];
        r.s16[i] = (int16_t)(from < INT16_MIN ? INT16_MIN : from > INT16_MAX ? INT16_MAX : from);
    }
    return r.v;
}

/* Of every quarter: eight lanes of each, clamped to int8. */
static inline __m512i plain_packs_epi16(__m512i a, __m512i b) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 64; i++) {
        const int lane = i / 16 * 8 + i % 8;
        const int from = i % 16 < 8 ? x.s16[lane] : y.s16[lane];
        r.s8[i] = (int8_t)(from < INT8_MIN ? INT8_MIN : from > INT8_MAX ? INT8_MAX : from);
    }
    return r.v;
}

static inline __m512i plain_permutexvar_epi32(__m512i at, __m512i a) {
    const plain_512 index = {at}, x = {a};
    plain_512 r;
    for (int i = 0; i < 16; i++) {
        r.s32[i] = x.s32[index.s32[i] & 15];
    }
    return r.v;
}

static inline __m512i plain_min_epi8(__m512i a, __m512i b) {
    plain_512 x = {a}, y = {b};
    for (int i = 0; i < 64; i++) {
        x.s8[i] = x.s8[i] < y.s8[i] ? x.s8[i] : y.s8[i];
    }
    return x.v;
}

static inline __m512i plain_max_epi8(__m512i a, __m512i b) {
    plain_512 x = {a}, y = {b};
    for (int i = 0; i < 64; i++) {
        x.s8[i] = x.s8[i] > y.s8[i] ? x.s8[i] : y.s8[i];
    }
    return x.v;
}

static inline __m512i plain_min_epi32(__m512i a, __m512i b) {
    plain_512 x = {a}, y = {b};
    for (int i = 0; i < 16; i++) {
        x.s32[i] = x.s32[i] < y.s32[i] ? x.s32[i] : y.s32[i];
    }
    return x.v;
}

static inline __m512i plain_max_epi32(__m512i a, __m512i b) {
    plain_512 x = {a}, y = {b};
    for (int i = 0; i < 16; i++) {
        x.s32[i] = x.s32[i] > y.s32[i] ? x.s32[i] : y.s32[i];
    }
    return x.v;
}

static inline __m512i plain_min_epi64(__m512i a, __m512i b) {
    plain_512 x = {a}, y = {b};
    for (int i = 0; i < 8; i++) {
        x.s64[i] = x.s64[i] < y.s64[i] ? x.s64[i] : y.s64[i];
    }
    return x.v;
}

static inline __m512i plain_max_epi64(__m512i a, __m512i b) {
    plain_512 x = {a}, y = {b};
    for (int i = 0; i < 8; i++) {
        x.s64[i] = x.s64[i] > y.s64[i] ? x.s64[i] : y.s64[i];
    }
    return x.v;
}

static inline __m512i plain_mul_epu32(__m512i a, __m512i b) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 8; i++) {
        r.s64[i] = (int64_t)((uint64_t)x.u32[2 * i] * y.u32[2 * i]);
    }
    return r.v;
}

/* Of every quarter: its lanes as `places` says, two bits each, where the mask has a bit. */
static inline __m512i plain_mask_shuffle_epi32(__m512i other, __mmask16 k, __m512i a, int places) {
    const plain_512 x = {a}, y = {other};
    plain_512 r;
    for (int i = 0; i < 16; i++) {
        r.s32[i] = k >> i & 1 ? x.s32[i / 4 * 4 + (places >> 2 * (i % 4) & 3)] : y.s32[i];
    }
    return r.v;
}

static inline __m512i plain_mul_epi32(__m512i a, __m512i b) {
    const plain_512 x = {a}, y = {b};
    plain_512 r;
    for (int i = 0; i < 8; i++) {
        r.s64[i] = (int64_t)x.s32[2 * i] * y.s32[2 * i];
    }
    return r.v;
}

static inline __m512i plain_set1_epi64(int64_t x) {
    plain_512 r;
    for (int i = 0; i < 8; i++) {
        r.s64[i] = x;
    }
    return r.v;
}

#if defined(PLAIN_AVX_VNNI)
#define __AVXVNNI__ 1
#define _mm256_dpbusd_avx_epi32 plain_dpbusd_avx_epi32
#endif

#if defined(PLAIN_AVX512) || defined(PLAIN_VNNI)
#define __AVX512BW__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1
#if defined(PLAIN_VNNI)
#define __AVX512VNNI__ 1
#define __AVX512VBMI__ 1
#endif
/* mct_v_held keeps a vector in one register, which takes registers of 512 bits. */
#define __asm__(...)

/* Compilers have some of them as macros. */
#undef _mm512_cvtepi8_epi32
#undef _mm_maskz_loadu_epi8
#undef _mm512_maskz_loadu_epi32
#undef _mm_mask_storeu_epi8
#undef _mm512_loadu_si512
#undef _mm512_dpwssd_epi32
#undef _mm512_madd_epi16
#undef _mm512_dpbusd_epi32
#undef _mm512_permutex2var_epi8
#undef _mm512_mask_blend_epi8
#undef _mm512_mask_blend_epi32
#undef _mm512_movepi8_mask
#undef _mm512_movepi32_mask
#undef _mm512_movm_epi32
#undef _mm512_reduce_add_epi32
#undef _mm512_unpacklo_epi32
#undef _mm512_unpackhi_epi32
#undef _mm512_unpacklo_epi64
#undef _mm512_unpackhi_epi64
#undef _mm512_shuffle_i32x4
#undef _mm512_packs_epi32
#undef _mm512_packs_epi16
#undef _mm512_permutexvar_epi32
#undef _mm512_min_epi8
#undef _mm512_max_epi8
#undef _mm512_min_epi32
#undef _mm512_max_epi32
#undef _mm512_min_epi64
#undef _mm512_max_epi64
#undef _mm512_mul_epi32
#undef _mm512_mul_epu32
#undef _mm512_mask_shuffle_epi32
#undef _mm512_set1_epi64

#define _mm512_cvtepi8_epi32 plain_cvtepi8_epi32
#define _mm_maskz_loadu_epi8 plain_maskz_loadu_epi8
#define _mm512_maskz_loadu_epi32 plain_maskz_loadu_epi32
#define _mm_mask_storeu_epi8 plain_mask_storeu_epi8
#define _mm512_loadu_si512 plain_loadu_si512
#define _mm512_dpwssd_epi32 plain_dpwssd_epi32
#define _mm512_madd_epi16 plain_madd_epi16
#define _mm512_dpbusd_epi32 plain_dpbusd_epi32
#define _mm512_permutex2var_epi8 plain_permutex2var_epi8
#define _mm512_mask_blend_epi8 plain_mask_blend_epi8
#define _mm512_mask_blend_epi32 plain_mask_blend_epi32
#define _mm512_movepi8_mask plain_movepi8_mask
#define _mm512_movepi32_mask plain_movepi32_mask
#define _mm512_movm_epi32 plain_movm_epi32
#define _mm512_reduce_add_epi32 plain_reduce_add_epi32
#define _mm512_unpacklo_epi32 plain_unpacklo_epi32
#define _mm512_unpackhi_epi32 plain_unpackhi_epi32
#define _mm512_unpacklo_epi64 plain_unpacklo_epi64
#define _mm512_unpackhi_epi64 plain_unpackhi_epi64
#define _mm512_shuffle_i32x4 plain_shuffle_i32x4
#define _mm512_packs_epi32 plain_packs_epi32
#define _mm512_packs_epi16 plain_packs_epi16
#define _mm512_permutexvar_epi32 plain_permutexvar_epi32
#define _mm512_min_epi8 plain_min_epi8
#define _mm512_max_epi8 plain_max_epi8
#define _mm512_min_epi32 plain_min_epi32
#define _mm512_max_epi32 plain_max_epi32
#define _mm512_min_epi64 plain_min_epi64
#define _mm512_max_epi64 plain_max_epi64
#define _mm512_mul_epi32 plain_mul_epi32
#define _mm512_mul_epu32 plain_mul_epu32
#define _mm512_mask_shuffle_epi32 plain_mask_shuffle_epi32
#define _mm512_set1_epi64 plain_set1_epi64
#endif

#endif
