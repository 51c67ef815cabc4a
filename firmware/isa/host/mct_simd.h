/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between host bodies and instruction sets: a handful of vector operations.
 *
 * Vectors are those of GNU C (gcc, clang, zig cc), whose operators work lane by lane. What C has no
 * operator for, or compilers translate badly, is in one header per vector width, chosen by the
 * compiler's macros. All is exact, so every instruction set gives the same bits. Lanes are numbered
 * from the lowest address; little-endian machines only. */
#ifndef MCT_SIMD_H
#define MCT_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define MCT_LANES 16
#elif defined(__AVX2__)
#define MCT_LANES 8
#else
#define MCT_LANES 4
#endif

/* Of loops over vectors in registers: where one of them stays a loop, compilers keep them in memory. */
#if defined(__clang__)
#define MCT_UNROLLED _Pragma("unroll")
#else
#define MCT_UNROLLED _Pragma("GCC unroll 16")
#endif

typedef int32_t mct_v32 __attribute__((vector_size(4 * MCT_LANES)));
typedef uint32_t mct_vu32 __attribute__((vector_size(4 * MCT_LANES)));
typedef int64_t mct_v64 __attribute__((vector_size(4 * MCT_LANES))); /* half as many lanes */
typedef uint64_t mct_vu64 __attribute__((vector_size(4 * MCT_LANES)));
typedef int8_t mct_v8 __attribute__((vector_size(MCT_LANES)));
typedef int8_t mct_four_v8 __attribute__((vector_size(4 * MCT_LANES)));
typedef int16_t mct_twice_v16 __attribute__((vector_size(4 * MCT_LANES)));
typedef uint16_t mct_twice_vu16 __attribute__((vector_size(4 * MCT_LANES)));
typedef int8_t mct_twice_v8 __attribute__((vector_size(2 * MCT_LANES)));
typedef uint8_t mct_half_vu8 __attribute__((vector_size(MCT_LANES / 2)));

/* What each of these headers defines:
 *
 * mct_v_load_s8(from, count)     the first `count` > 0 of int8; the lanes after them are 0
 * mct_v_store_s8(to, v, count)   the lowest byte of each of the first `count` > 0 lanes
 * mct_v_load_part(from, count)   the first `count` > 0 lanes; the lanes after them are 0
 * mct_v_load_u4(from, count)     the first `count`, even, of 4 bits, the lower half of a byte first
 * mct_v_store_u4(to, v, count)   the same of lanes from 0 to 15
 * mct_v_dot(sums, a, b)          sums + the dot products of int16 pairs, one pair in each lane; not
 *                                for pairs that are -32768 four times
 * mct_v_parts                    as many lanes of sums, maybe in several parts, for many such dot
 *                                products one after the other
 * mct_v_add_dot(parts, a, b)     parts += the same
 * mct_v_sum(parts)               all parts of each lane
 * mct_v_total(v)                 the sum of all lanes, modulo 2^32
 * mct_v_turn(v)                  v[i][l] becomes v[l][i], for MCT_LANES vectors
 * mct_v_blend(even, odd)         the lanes 0, 2, 4 … of the one, 1, 3, 5 … of the other
 * mct_v_min, mct_v_max(a, b)
 * mct_v_bytes(v)                 the lanes of four vectors, clamped to int8, one after the other
 * mct_v_clamp_bytes(v, low, high)   int8 lanes
 * mct_v_mul_even(a, b)           int64 products of the lanes 0, 2, 4 …
 * mct_v_mul_even_unsigned(a, b)  the same of lanes that are unsigned
 * mct_v_odd_down(v)              the lanes 1, 3, 5 … in the places of 0, 2, 4 …; the others may be
 *                                anything: a move, where mct_v_odd shifts
 * mct_v_upper(even, odd)         the upper 32 bits of even[0], odd[0], even[1] …
 * mct_v_shift_right64(v, bits)   v >> bits, keeping the sign
 * mct_v_clamp64(v, low, high)
 * mct_v_bits(truth)              bit l is set where lane l is true, which is -1
 * mct_v_of_bits(bits)            lane l is true where bit l is set
 *
 * And where MCT_HAS_DOT4 is 1:
 * mct_v_dot4(sums, u, s)         sums + the dot products of quads of uint8 and of int8, one in a lane
 *
 * And where MCT_HAS_LOOKUP is 1:
 * mct_v_table_of(table)          256 bytes
 * mct_v_lookup(table, x)         table[x + 128] of each of 4 * MCT_LANES int8 */
#if MCT_LANES == 16
#include "mct_simd_avx512.h"
#elif MCT_LANES == 8
#include "mct_simd_avx2.h"
#else
#include "mct_simd_128.h"
#endif

#if MCT_LANES != 8 /* AVX2 has one shift for all lanes */
static inline mct_v32 mct_v_load_u4(const uint8_t *from, int32_t count) {
    mct_half_vu8 bytes = {0};
    if (count >= MCT_LANES) { /* a size that compilers know is one load */
        memcpy(&bytes, from, sizeof bytes);
    } else {
        memcpy(&bytes, from, (size_t)count / 2);
    }
    const mct_vu64 packed = __builtin_convertvector(bytes, mct_vu64);
    return (mct_v32)((packed & 15) | ((packed >> 4) << 32));
}

static inline void mct_v_store_u4(uint8_t *to, mct_v32 v, int32_t count) {
    const mct_vu64 pairs = (mct_vu64)v;
    const mct_vu64 packed = (pairs & 15) | (pairs >> 32 << 4);
    const mct_half_vu8 bytes = __builtin_convertvector(packed, mct_half_vu8);
    if (count >= MCT_LANES) {
        memcpy(to, &bytes, sizeof bytes);
    } else {
        memcpy(to, &bytes, (size_t)count / 2);
    }
}
#endif

/* sums + a * b, of lanes that fit int16. */
static inline mct_v32 mct_v_add_product(mct_v32 sums, mct_v32 a, mct_v32 b) {
#if defined(__x86_64__) /* which takes twice as long for 32 bits */
    return mct_v_dot(sums, a & 0xFFFF, b);
#else
    return sums + a * b;
#endif
}

/* v, in a register: compilers otherwise load it again wherever it is used. */
static inline mct_v32 mct_v_held(mct_v32 v) {
#if defined(__x86_64__)
    __asm__("" : "+x"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

static inline mct_v32 mct_v_load(const void *from) {
    mct_v32 v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void mct_v_store(void *to, mct_v32 v) {
    memcpy(to, &v, sizeof v);
}
/* to[i] = from[i] - zero_point, which fits, for i < 2 * MCT_LANES. */
static inline void mct_v_widen(int16_t *to, const int8_t *from, int32_t zero_point) {
    mct_twice_v8 bytes;
    memcpy(&bytes, from, sizeof bytes);
    const mct_twice_v16 wide = __builtin_convertvector(bytes, mct_twice_v16) - (int16_t)zero_point;
    memcpy(to, &wide, sizeof wide);
}

static inline mct_v32 mct_v_all(int32_t x) {
    return x - (mct_v32){0};
}

/* Four rows that are `step` apart, of the first `count` > 0 lanes each, as mct_v_bytes has them. */
static inline void mct_v_store_rows(int8_t *to, int32_t step, mct_v32 v, int32_t count) {
    int8_t bytes[4 * MCT_LANES];
    memcpy(bytes, &v, sizeof bytes);
    for (int32_t i = 0; i < 4; i++) {
        if (count == MCT_LANES) { /* a size that compilers know is one store */
            memcpy(to + i * step, bytes + i * MCT_LANES, MCT_LANES);
        } else {
            memcpy(to + i * step, bytes + i * MCT_LANES, (size_t)count);
        }
    }
}

#if !defined(MCT_HAS_LOOKUP)
#define MCT_HAS_LOOKUP 0
#endif

#if MCT_LANES == 4 /* without masked loads */
static inline mct_v32 mct_v_load_part(const void *from, int32_t count) {
    mct_v32 v = {0};
    if (count >= MCT_LANES) {
        memcpy(&v, from, sizeof v);
    } else {
        memcpy(&v, from, (size_t)count * sizeof v[0]);
    }
    return v;
}
#endif

/* The lanes 0, 2, 4 …, or 1, 3, 5 …, as unsigned int64. */
static inline mct_v32 mct_v_even(mct_v32 v) {
    return (mct_v32)((mct_vu64)v & UINT64_C(0xFFFFFFFF));
}
static inline mct_v32 mct_v_odd(mct_v32 v) {
    return (mct_v32)((mct_vu64)v >> 32);
}
/* The lowest 32 bits of even[0], odd[0], even[1] … */
static inline mct_v32 mct_v_interleave(mct_v64 even, mct_v64 odd) {
    return (mct_v32)(((mct_vu64)even & UINT64_C(0xFFFFFFFF)) | ((mct_vu64)odd << 32));
}

#if MCT_LANES == 4
static inline mct_v32 mct_v_blend(mct_vu64 even, mct_vu64 odd) {
    return (mct_v32)((even & UINT64_C(0xFFFFFFFF)) | (odd >> 32 << 32));
}

static inline int32_t mct_v_total(mct_v32 v) {
    uint32_t total = 0;
    for (int32_t l = 0; l < MCT_LANES; l++) {
        total += (uint32_t)v[l];
    }
    return (int32_t)total;
}

static inline void mct_v_turn(mct_v32 v[MCT_LANES]) {
    mct_v64 even[2], odd[2];
    for (int i = 0; i < 2; i++) {
        const mct_v32 first = v[2 * i], second = v[2 * i + 1];
        even[i] = (mct_v64)mct_v_interleave((mct_v64)first, (mct_v64)second);
        odd[i] = (mct_v64)mct_v_interleave((mct_v64)mct_v_odd(first), (mct_v64)mct_v_odd(second));
    }
    for (int i = 0; i < 2; i++) {
        v[2 * i] = (mct_v32)(mct_v64){even[0][i], even[1][i]};
        v[2 * i + 1] = (mct_v32)(mct_v64){odd[0][i], odd[1][i]};
    }
}
#endif

/* The highest 32 bits of the products. */
static inline mct_v32 mct_v_highest(mct_v32 a, mct_v32 b) {
    return mct_v_upper(mct_v_mul_even(a, b), mct_v_mul_even(mct_v_odd_down(a), mct_v_odd_down(b)));
}

/* The quads (a[l], b[l], c[l], d[l]) of int8. */
static inline mct_v32 mct_v_quad(mct_v32 a, mct_v32 b, mct_v32 c, mct_v32 d) {
    const mct_v32 first = (a & 0xFF) | (mct_v32)((mct_vu32)(b & 0xFF) << 8);
    return first | (mct_v32)((mct_vu32)(c & 0xFF) << 16) | (mct_v32)((mct_vu32)d << 24);
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

#if MCT_LANES != 16 /* which has masks */
static inline mct_v32 mct_v_of_bits(uint32_t bits) {
    return -(mct_v32)(((mct_vu32)mct_v_all((int32_t)bits) >> mct_v_count(0)) & 1u);
}
#endif

/* mct_high_mul: a * b / 2^31, rounded half up. */
static inline mct_v32 mct_v_high_mul(mct_v32 a, mct_v32 b) {
    const int64_t half = INT64_C(1) << 30;
    const mct_v64 even = mct_v_mul_even(a, b) + half;
    const mct_v64 odd = mct_v_mul_even(mct_v_odd(a), mct_v_odd(b)) + half;
    return mct_v_blend((mct_vu64)even >> 31, (mct_vu64)odd << 1);
}

/* mct_rounding_shift: v / 2^bits, rounded, halves away from zero. */
static inline mct_v32 mct_v_rounding_shift(mct_v32 v, mct_v32 bits) {
    const mct_v32 mask = (mct_v32)(((mct_vu32)mct_v_all(1) << (mct_vu32)bits) - 1u);
    const mct_v32 threshold = (mask >> 1) - (v >> 31); /* true is -1 */
    return (v >> bits) - ((v & mask) > threshold);
}

#define MCT_RANDOM_STEP UINT32_C(0x9E3779B9)

/* Where the random numbers of the elements `index` begin: MCT_RANDOM_STEP more is the next one. */
static inline mct_vu32 mct_v_random_at(uint32_t key, mct_vu32 index) {
    return index * MCT_RANDOM_STEP + key;
}

/* mct_random16 of the elements that begin there. */
static inline mct_v32 mct_v_random16_of(mct_vu32 x) {
    x = (x ^ (x >> 16)) * UINT32_C(0x21F0AAAD);
    x = (x ^ (x >> 15)) * UINT32_C(0x735A2D97);
    return (mct_v32)((x ^ (x >> 15)) >> 16);
}

/* mct_random16 of the elements `index`. */
static inline mct_v32 mct_v_random16(uint32_t key, mct_vu32 index) {
    return mct_v_random16_of(mct_v_random_at(key, index));
}

#endif
