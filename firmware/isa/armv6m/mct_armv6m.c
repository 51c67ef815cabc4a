/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m.h"

#include <stddef.h>

/* Keeps compilers from calling memset or memcpy for a few bytes. */
static inline void mct_armv6m_keep_loop(void) {
    __asm__ volatile("");
}

const int8_t *mct_armv6m_aligned(const int8_t *from, int32_t count, int8_t *aligned) {
    if ((((uintptr_t)from | (uintptr_t)count) & 3) == 0) {
        return from;
    }
    for (int32_t i = 0; i < count; i++) {
        aligned[i] = from[i];
        mct_armv6m_keep_loop();
    }
    for (int32_t i = count; (i & 3) != 0; i++) {
        aligned[i] = 0;
    }
    return aligned;
}

static int32_t mct_armv6m_pack_some(const int8_t *from, const int8_t *end, uint32_t *to,
                                    uint32_t *sums);
static void mct_armv6m_pack_to(const int8_t *from, const int8_t *end, uint32_t *to);

void mct_armv6m_pack(const int8_t *from, int32_t quads, uint32_t *to) {
    mct_armv6m_pack_to(from, from + 4 * quads, to);
}

mct_armv6m_packed mct_armv6m_pack_weights(const int8_t *from, int32_t quads, uint32_t *to) {
    mct_armv6m_packed packed = {0, 1};
    while (quads > 0) {
        const int32_t now = quads < MCT_ARMV6M_SUMMED_QUADS ? quads : MCT_ARMV6M_SUMMED_QUADS;
        uint32_t sums = 0;
        const int32_t is_exact = mct_armv6m_pack_some(from, from + 4 * now, to, &sums);
        const int32_t low = (int16_t)(uint16_t)sums;
        packed.is_exact &= is_exact;
        packed.sum += low + ((int32_t)(sums - (uint32_t)low) >> 16);
        from += 4 * now;
        to += 4 * now;
        quads -= now;
    }
    return packed;
}

void mct_armv6m_dots_exact(const uint32_t *x, int32_t quads, const uint32_t *w, int32_t *sums,
                           const uint32_t *w_end) {
    for (; w != w_end; sums += 2) {
        uint32_t first = w[0], second = w[1];
        w += 2;
        for (int32_t q = 0; q < 2 * quads; q += 2, w += 4) {
            first += (uint32_t)(mct_armv6m_exact(x[q], w[0]) + mct_armv6m_exact(x[q + 1], w[1]));
            second += (uint32_t)(mct_armv6m_exact(x[q], w[2]) + mct_armv6m_exact(x[q + 1], w[3]));
        }
        sums[0] = (int32_t)first;
        sums[1] = (int32_t)second;
    }
}

#if MCT_ARMV6M_ASSEMBLY

/* Each byte becomes 128 more, and 0 … 255, so that two of them are taken without their signs. */
__attribute__((naked, noinline)) static void mct_armv6m_pack_to(MCT_IN_REGISTER const int8_t *from,
                                                                MCT_IN_REGISTER const int8_t *end,
                                                                MCT_IN_REGISTER uint32_t *to) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "ldr r3, 2f\n\t"
                     "ldr r4, 3f\n\t"
                     "ldr r5, 4f\n\t"
                     "1:\n\t"
                     "ldmia r0!, {r6}\n\t"
                     "eors r6, r3\n\t"
                     "lsrs r7, r6, #8\n\t"
                     "ands r6, r4\n\t"
                     "ands r7, r4\n\t"
                     "subs r6, r6, r5\n\t"
                     "subs r7, r7, r5\n\t"
                     "stmia r2!, {r6, r7}\n\t"
                     "cmp r0, r1\n\t"
                     "bne 1b\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t"
                     ".p2align 2\n\t"
                     "2: .word 0x80808080\n\t"
                     "3: .word 0x00FF00FF\n\t"
                     "4: .word 0x00800080\n\t");
}

/* The same with halves swapped, two words of four. sums: gets that of all words. Whether they are exact. */
__attribute__((naked, noinline)) static int32_t
mct_armv6m_pack_some(MCT_IN_REGISTER const int8_t *from, MCT_IN_REGISTER const int8_t *end,
                     MCT_IN_REGISTER uint32_t *to, MCT_IN_REGISTER uint32_t *sums) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "push {r3, r4}\n\t"
                     "mov r12, r1\n\t" /* end */
                     "movs r1, #1\n\t"
                     "mov r8, r1\n\t" /* whether they are exact */
                     "movs r1, #0\n\t"
                     "ldr r3, 2f\n\t"
                     "ldr r4, 3f\n\t"
                     "ldr r5, 4f\n\t"
                     "1:\n\t"
                     "ldmia r0!, {r6}\n\t"
                     "rev r6, r6\n\t"
                     "eors r6, r3\n\t"
                     "movs r7, r6\n\t"
                     "lsrs r6, r6, #8\n\t"
                     "ands r6, r4\n\t"
                     "beq 5f\n\t"
                     "ands r7, r4\n\t"
                     "beq 6f\n\t"
                     "7:\n\t"
                     "subs r6, r6, r5\n\t"
                     "subs r7, r7, r5\n\t"
                     "stmia r2!, {r6, r7}\n\t"
                     "adds r1, r1, r6\n\t"
                     "adds r1, r1, r7\n\t"
                     "adds r2, #8\n\t"
                     "cmp r0, r12\n\t"
                     "bne 1b\n\t"
                     "pop {r3, r4}\n\t"
                     "str r1, [r3]\n\t"
                     "mov r0, r8\n\t"
                     "mov r8, r4\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t"
                     "5:\n\t"
                     "ands r7, r4\n\t"
                     "6:\n\t"
                     "mov r8, r6\n\t" /* 0 … */
                     "cmp r6, #0\n\t"
                     "beq 7b\n\t"
                     "mov r8, r7\n\t" /* … is either */
                     "b 7b\n\t"
                     ".p2align 2\n\t"
                     "2: .word 0x80808080\n\t"
                     "3: .word 0x00FF00FF\n\t"
                     "4: .word 0x00800080\n\t");
}

/* Two pairs of values by the weights of two channels: 8 products in 15 instructions of 30 bytes. */
#define MCT_QUAD                                                                                   \
    "ldmia r6!, {r0, r1}\n\t"                                                                      \
    "ldmia r7!, {r2, r3}\n\t"                                                                      \
    "muls r2, r0, r2\n\t"                                                                          \
    "asrs r2, r2, #16\n\t"                                                                         \
    "adcs r4, r2\n\t"                                                                              \
    "muls r3, r1, r3\n\t"                                                                          \
    "asrs r3, r3, #16\n\t"                                                                         \
    "adcs r4, r3\n\t"                                                                              \
    "ldmia r7!, {r2, r3}\n\t"                                                                      \
    "muls r2, r0, r2\n\t"                                                                          \
    "asrs r2, r2, #16\n\t"                                                                         \
    "adcs r5, r2\n\t"                                                                              \
    "muls r3, r1, r3\n\t"                                                                          \
    "asrs r3, r3, #16\n\t"                                                                         \
    "adcs r5, r3\n\t"

/* Four quads in one round of the loop, which begins in its middle where there are not so many. */
__attribute__((naked, noinline)) void mct_armv6m_dots(MCT_IN_REGISTER const uint32_t *x,
                                                      MCT_IN_REGISTER int32_t quads,
                                                      MCT_IN_REGISTER const uint32_t *w,
                                                      MCT_IN_REGISTER int32_t *sums,
                                                      MCT_IN_REGISTER const uint32_t *w_end) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r4, r5, r6, r7}\n\t"
                     "mov r8, r0\n\t" /* x */
                     "mov r9, r3\n\t" /* sums */
                     "mov r7, r2\n\t" /* w */
                     "ldr r4, [sp, #36]\n\t"
                     "mov r10, r4\n\t" /* w_end */
                     "lsls r4, r1, #3\n\t"
                     "adds r4, r4, r0\n\t"
                     "mov r12, r4\n\t" /* the end of x */
                     "rsbs r1, r1, #0\n\t"
                     "movs r4, #3\n\t"
                     "ands r1, r4\n\t"
                     "movs r4, #30\n\t"
                     "muls r1, r4, r1\n\t"
                     "adr r4, 2f\n\t"
                     "adds r4, r4, r1\n\t"
                     "mov r11, r4\n\t" /* where the first round begins */
                     "1:\n\t"
                     "ldmia r7!, {r4, r5}\n\t"
                     "mov r6, r8\n\t"
                     "mov pc, r11\n\t"
                     ".p2align 2\n\t"
                     "2:\n\t" MCT_QUAD MCT_QUAD MCT_QUAD MCT_QUAD "cmp r6, r12\n\t"
                     "bne 2b\n\t"
                     "mov r0, r9\n\t"
                     "stmia r0!, {r4, r5}\n\t"
                     "mov r9, r0\n\t"
                     "cmp r7, r10\n\t"
                     "bne 1b\n\t"
                     "pop {r4, r5, r6, r7}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "mov r10, r6\n\t"
                     "mov r11, r7\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t");
}

#else

#define MCT_EVEN 0x00FF00FFu /* the bytes 0 and 2 */
#define MCT_SIGNS 0x80808080u

static inline uint32_t mct_word_of(const int8_t *from) {
    uint32_t word;
    __builtin_memcpy(&word, __builtin_assume_aligned(from, 4), sizeof word);
    return word;
}

static void mct_armv6m_pack_to(const int8_t *from, const int8_t *end, uint32_t *to) {
    for (; from != end; from += 4, to += 2) {
        const uint32_t word =
            mct_word_of(from) ^ MCT_SIGNS; /* each byte is 128 more, and 0 … 255 */
        to[0] = (word & MCT_EVEN) - (MCT_SIGNS & MCT_EVEN);
        to[1] = ((word >> 8) & MCT_EVEN) - (MCT_SIGNS & MCT_EVEN);
    }
}

static int32_t mct_armv6m_pack_some(const int8_t *from, const int8_t *end, uint32_t *to,
                                    uint32_t *sums) {
    int32_t is_exact = 1;
    for (; from != end; from += 4, to += 4) {
        const uint32_t word = __builtin_bswap32(mct_word_of(from)) ^ MCT_SIGNS;
        const uint32_t even = (word >> 8) & MCT_EVEN, odd = word & MCT_EVEN;
        is_exact &= even != 0 && odd != 0;
        to[0] = even - (MCT_SIGNS & MCT_EVEN);
        to[1] = odd - (MCT_SIGNS & MCT_EVEN);
        *sums += to[0] + to[1];
    }
    return is_exact;
}

void mct_armv6m_dots(const uint32_t *x, int32_t quads, const uint32_t *w, int32_t *sums,
                     const uint32_t *w_end) {
    for (; w != w_end; sums += 2) {
        uint32_t first = w[0], second = w[1];
        w += 2;
        for (int32_t q = 0; q < 2 * quads; q += 2, w += 4) {
            first += (uint32_t)(mct_armv6m_two(x[q], w[0]) + mct_armv6m_two(x[q + 1], w[1]));
            second += (uint32_t)(mct_armv6m_two(x[q], w[2]) + mct_armv6m_two(x[q + 1], w[3]));
        }
        sums[0] = (int32_t)first;
        sums[1] = (int32_t)second;
    }
}

#endif
