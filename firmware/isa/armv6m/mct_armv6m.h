/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of int8 products on cores whose longest product has 32 bits: Cortex-M0, M0+, M1, M23.
 *
 * One product of words gives two of int8. Four values a, b, c, d are kept as the words a + c * 2^16 and
 * b + d * 2^16, four weights with their halves swapped. Modulo 2^32,
 *
 *     (a + c * 2^16) * (wc + wa * 2^16) = a * wc + (a * wa + c * wc) * 2^16
 *
 * |a * wc| <= 2^14, so the lower half is its sign and nothing else gets lost: the upper half, less one
 * if the lower is negative, is the sum of two products. `asrs` by 16 leaves that sign in the carry,
 * and `adcs` adds it again. The upper half holds -32512 … 32767; the only sum beyond is that of two
 * products of -128 and -128. Packing says which weights can make it, and then an exact loop takes over. */
#ifndef MCT_ARMV6M_H
#define MCT_ARMV6M_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Without this the same functions are plain C: slow, the same bits, for any processor. */
#ifndef MCT_ARMV6M_ASSEMBLY
#if defined(__ARM_ARCH_ISA_THUMB) && !defined(MCT_ARMV6M_EMULATED)
#define MCT_ARMV6M_ASSEMBLY (__ARM_ARCH_ISA_THUMB == 1)
#else
#define MCT_ARMV6M_ASSEMBLY 0
#endif
#endif
#define MCT_IN_REGISTER __attribute__((unused)) /* as far as a compiler sees */

/* Words on the stack for the packed values and weights of a kernel. */
#ifndef MCT_ARMV6M_WORDS
#define MCT_ARMV6M_WORDS 1536
#endif

/* Values of a sum that are packed at once, by four. Two lanes of weights are summed in halves of a word. */
#define MCT_ARMV6M_QUADS ((MCT_ARMV6M_WORDS - 2) / 6)
#define MCT_ARMV6M_SUMMED_QUADS 127

/* Four times `quads` values, from an address that 4 divides; `to` may end where they do. */
void mct_armv6m_pack(const int8_t *from, int32_t quads, uint32_t *to);

typedef struct {
    int32_t sum;
    int32_t is_exact; /* 0: two weights of a pair are -128 */
} mct_armv6m_packed;

/* The same of weights: two words at `to`, then two that another channel's weights take. */
mct_armv6m_packed mct_armv6m_pack_weights(const int8_t *from, int32_t quads, uint32_t *to);

/* Sums of products of the values x with the weights of pairs of channels, from w to w_end: the two sums
 * to begin with, then four words for every two of x. quads: of x, at least 1 */
void mct_armv6m_dots(const uint32_t *x, int32_t quads, const uint32_t *w, int32_t *sums,
                     const uint32_t *w_end);
void mct_armv6m_dots_exact(const uint32_t *x, int32_t quads, const uint32_t *w, int32_t *sums,
                           const uint32_t *w_end);

/* Values that lie anywhere, as mct_armv6m_pack takes them: in `aligned` unless they are so already. */
const int8_t *mct_armv6m_aligned(const int8_t *from, int32_t count, int8_t *aligned);

/* a and c of a + c * 2^16 */
static inline int32_t mct_armv6m_low(uint32_t pair) {
    return (int16_t)(uint16_t)pair;
}
static inline int32_t mct_armv6m_high(uint32_t pair) {
    return (int32_t)(pair - (uint32_t)mct_armv6m_low(pair)) >> 16;
}

/* Two products of int8, whatever they are. */
static inline int32_t mct_armv6m_exact(uint32_t x, uint32_t w) {
    return mct_armv6m_low(x) * mct_armv6m_high(w) + mct_armv6m_high(x) * mct_armv6m_low(w);
}

/* The same as `muls`, `asrs` and `adcs` make them. */
static inline int32_t mct_armv6m_two(uint32_t x, uint32_t w) {
    const uint32_t product = x * w;
    return ((int32_t)product >> 16) + (int32_t)(product >> 15 & 1u);
}

#ifdef __cplusplus
}
#endif

#endif
