/* SPDX-License-Identifier: Apache-2.0 */
/* The DSP extension of Armv7E-M and Armv8-M; only mct_dsp.h includes this. */
#ifndef MCT_DSP_ARM_H
#define MCT_DSP_ARM_H

/* (a.low, b.low) and (a.high, b.high). */
static inline uint32_t mct_lows(uint32_t a, uint32_t b) {
    uint32_t pair;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}
static inline uint32_t mct_highs(uint32_t a, uint32_t b) {
    uint32_t pair;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(pair) : "r"(b), "r"(a));
    return pair;
}

/* The bytes 0 and 2, or 1 and 3, as a pair of signed numbers. */
static inline uint32_t mct_even_bytes(uint32_t word) {
    uint32_t pair;
    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
    return pair;
}
static inline uint32_t mct_odd_bytes(uint32_t word) {
    uint32_t pair;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}

/* Sums of pairs, half by half. */
static inline uint32_t mct_add_pairs(uint32_t a, uint32_t b) {
    uint32_t pair;
    __asm__("sadd16 %0, %1, %2" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}
static inline uint32_t mct_add_even_bytes(uint32_t pair, uint32_t word) {
    uint32_t sum;
    __asm__("sxtab16 %0, %1, %2" : "=r"(sum) : "r"(pair), "r"(word));
    return sum;
}
static inline uint32_t mct_add_odd_bytes(uint32_t pair, uint32_t word) {
    uint32_t sum;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(sum) : "r"(pair), "r"(word));
    return sum;
}

/* sum + a.low * b.low + a.high * b.high */
static inline int32_t mct_dot(uint32_t a, uint32_t b, int32_t sum) {
    int32_t result;
    __asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}
/* sum + one product */
static inline int32_t mct_mul_low_high(uint32_t a, uint32_t b, int32_t sum) {
    int32_t result;
    __asm__("smlabt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}
static inline int32_t mct_mul_high_low(uint32_t a, uint32_t b, int32_t sum) {
    int32_t result;
    __asm__("smlatb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}
static inline int32_t mct_mul_low_low(uint32_t a, uint32_t b, int32_t sum) {
    int32_t result;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* sum + a * b / 2^32, the product rounded half up. */
static inline int32_t mct_add_high_product(int32_t sum, int32_t a, int32_t b) {
    int32_t result;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}

/* a * b / 2^32, rounded down. */
static inline int32_t mct_high_product(int32_t a, int32_t b) {
    int32_t result;
    __asm__("smmul %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

static inline int32_t mct_saturate8(int32_t x) {
    int32_t result;
    __asm__("ssat %0, #8, %1" : "=r"(result) : "r"(x));
    return result;
}
/* x / 2, rounded down, in int8's range. */
static inline int32_t mct_half_saturate8(int32_t x) {
    int32_t result;
    __asm__("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(x));
    return result;
}

/* x / 2^16, rounded down, in int8's range. */
static inline int32_t mct_whole_saturate8(int32_t x) {
    int32_t result;
    __asm__("ssat %0, #8, %1, asr #16" : "=r"(result) : "r"(x));
    return result;
}

/* a + b, in int32's range. */
static inline int32_t mct_add_saturated(int32_t a, int32_t b) {
    int32_t result;
    __asm__("qadd %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/* Four int8: a - b, saturated. */
static inline uint32_t mct_sub_bytes_saturated(uint32_t a, uint32_t b) {
    uint32_t result;
    __asm__("qsub8 %0, %1, %2" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

/* One word of the stream times eight of the panel. */
#define MCT_DOT4_QUAD                                                                              \
    "ldr %[w], [%[stream]], #4\n\t"                                                                \
    "ldm %[panel]!, {r8, r9, r10, r12}\n\t"                                                        \
    "sxtb16 %[e], %[w]\n\t"                                                                        \
    "sxtb16 %[w], %[w], ror #8\n\t"                                                                \
    "smlad %[s0], r8, %[e], %[s0]\n\t"                                                             \
    "smlad %[s1], r9, %[e], %[s1]\n\t"                                                             \
    "smlad %[s2], r10, %[e], %[s2]\n\t"                                                            \
    "smlad %[s3], r12, %[e], %[s3]\n\t"                                                            \
    "ldm %[panel]!, {r8, r9, r10, r12}\n\t"                                                        \
    "smlad %[s0], r8, %[w], %[s0]\n\t"                                                             \
    "smlad %[s1], r9, %[w], %[s1]\n\t"                                                             \
    "smlad %[s2], r10, %[w], %[s2]\n\t"                                                            \
    "smlad %[s3], r12, %[w], %[s3]\n\t"

/* sums[l] += sum over k < 4 * quads of panel[k][l] * stream[k]: 32 products in 27 instructions.
 *
 * A panel holds, for every four k, the pairs (k, k + 2) of the four lanes, then (k + 1, k + 3). */
static inline mct_sums4 mct_dot4(const uint32_t *panel, const int8_t *stream, int32_t quads,
                                 mct_sums4 sums) {
    int32_t s0 = sums.lane[0], s1 = sums.lane[1], s2 = sums.lane[2], s3 = sums.lane[3];
    uint32_t w, e;
    __asm__ volatile(
        "lsrs %[n], %[n], #1\n\t"
        "bcc 1f\n\t" MCT_DOT4_QUAD "1:\n\t"
        "beq 3f\n\t"
        "2:\n\t" MCT_DOT4_QUAD MCT_DOT4_QUAD "subs %[n], %[n], #1\n\t"
        "bne 2b\n\t"
        "3:"
        : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [panel] "+r"(panel),
          [stream] "+r"(stream), [n] "+r"(quads), [w] "=&r"(w), [e] "=&r"(e)
        :
        : "r8", "r9", "r10", "r12", "cc", "memory");
    return (mct_sums4){{s0, s1, s2, s3}};
}

/* A word of each row times two of the terms. */
#define MCT_DOT2_QUAD(even, odd)                                                                   \
    "ldr %[w], [%[first]], #4\n\t"                                                                 \
    "ldr %[v], [%[second]], #4\n\t"                                                                \
    "sxtb16 %[e], %[w]\n\t"                                                                        \
    "smlad %[s0], " even ", %[e], %[s0]\n\t"                                                       \
    "sxtb16 %[e], %[v]\n\t"                                                                        \
    "smlad %[s1], " even ", %[e], %[s1]\n\t"                                                       \
    "sxtb16 %[w], %[w], ror #8\n\t"                                                                \
    "sxtb16 %[v], %[v], ror #8\n\t"                                                                \
    "smlad %[s0], " odd ", %[w], %[s0]\n\t"                                                        \
    "smlad %[s1], " odd ", %[v], %[s1]\n\t"
#define MCT_DOT2_TWO                                                                               \
    "ldm %[terms]!, {r8, r9, r10, r12}\n\t" MCT_DOT2_QUAD("r8", "r9") MCT_DOT2_QUAD("r10", "r12")

/* sums += sum over k < 4 * quads of terms[k] * first[k], and of terms[k] * second[k]: 32 products in
 * 44 instructions. For every four k, terms hold the pairs (k, k + 2) and (k + 1, k + 3). */
static inline mct_sums2 mct_dot2(const uint32_t *terms, const int8_t *first, const int8_t *second,
                                 int32_t quads, mct_sums2 sums) {
    uint32_t w, v, e;
    __asm__ volatile(
        "lsrs %[n], %[n], #1\n\t"
        "bcc 1f\n\t"
        "ldrd r8, r9, [%[terms]], #8\n\t" MCT_DOT2_QUAD(
            "r8", "r9") "1:\n\t"
                        "lsrs %[n], %[n], #1\n\t"
                        "bcc 2f\n\t" MCT_DOT2_TWO "2:\n\t"
                        "beq 4f\n\t"
                        "3:\n\t" MCT_DOT2_TWO MCT_DOT2_TWO "subs %[n], %[n], #1\n\t"
                        "bne 3b\n\t"
                        "4:"
        : [s0] "+r"(sums.first), [s1] "+r"(sums.second), [terms] "+r"(terms), [first] "+r"(first),
          [second] "+r"(second), [n] "+r"(quads), [w] "=&r"(w), [v] "=&r"(v), [e] "=&r"(e)
        :
        : "r8", "r9", "r10", "r12", "cc", "memory");
    return sums;
}

#endif
