/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_pairs.h"

#include <stddef.h>

/* Two rows of four columns. */
static inline void mct_pairs_two(uint32_t a, uint32_t b, uint32_t *to) {
    const uint32_t a_even = mct_even_bytes(a), a_odd = mct_odd_bytes(a);
    const uint32_t b_even = mct_even_bytes(b), b_odd = mct_odd_bytes(b);
    to[0] = mct_lows(a_even, b_even);
    to[1] = mct_lows(a_odd, b_odd);
    to[2] = mct_highs(a_even, b_even);
    to[3] = mct_highs(a_odd, b_odd);
}

void mct_pairs_rows(const int8_t *rows, int32_t stride, int32_t columns, int32_t depth,
                    uint32_t *panel) {
    int32_t k = 0;
    for (; columns == 4 && k + 2 <= depth; k += 2, rows += 2 * stride, panel += 4) {
        mct_pairs_two(mct_load32(rows), mct_load32(rows + stride), panel);
    }
    for (; k < (depth + 3) / 4 * 4; k += 2, panel += 4) {
        uint32_t words[2] = {0, 0};
        for (int32_t i = 0; i < 2 && k + i < depth; i++, rows += stride) {
            words[i] = mct_row_word(rows, columns);
        }
        mct_pairs_two(words[0], words[1], panel);
    }
}

void mct_pairs_add(const uint32_t *panel, const int16_t *stream, int32_t depth, mct_sums4 *sums) {
    for (int32_t k = 0; k < depth; k += 2, panel += 4) {
        const uint32_t pair = mct_pair(stream[k], k + 1 < depth ? stream[k + 1] : 0);
        for (int32_t l = 0; l < 4; l++) {
            sums->lane[l] = mct_dot(panel[l], pair, sums->lane[l]);
        }
    }
}

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

_Static_assert(offsetof(mct_tile_pairs, sums) == 20, "order");

/* A line is an instruction. */
/* clang-format off */

/* Four numbers of the stream. */
#define MCT_PAIRS_QUAD                                                                             \
    "ldr r11, [r2], #4\n\t"                                                                        \
    "ldm r1!, {r8, r9, r10, r12}\n\t"                                                              \
    "smlad r4, r8, r11, r4\n\t"                                                                    \
    "smlad r5, r9, r11, r5\n\t"                                                                    \
    "smlad r6, r10, r11, r6\n\t"                                                                   \
    "smlad r7, r12, r11, r7\n\t"                                                                   \
    "ldr r11, [r2], #4\n\t"                                                                        \
    "ldm r1!, {r8, r9, r10, r12}\n\t"                                                              \
    "smlad r4, r8, r11, r4\n\t"                                                                    \
    "smlad r5, r9, r11, r5\n\t"                                                                    \
    "smlad r6, r10, r11, r6\n\t"                                                                   \
    "smlad r7, r12, r11, r7\n\t"

/* r0 sums, r1 panel, r2 stream, r3 quads left, lr streams left. On the stack panel, quads, stride. */
__attribute__((naked, noinline)) void
mct_tile_pairs_run(const mct_tile_pairs *t __attribute__((unused))) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
        "ldm r0, {r4, r5, r6, r7, r8, r9}\n\t"
        "push {r4, r5, r6}\n\t"
        "mov lr, r7\n\t"
        "mov r2, r8\n\t"
        "mov r0, r9\n\t"
        "1:\n\t"
        "ldrd r1, r3, [sp]\n\t"
        "ldm r0, {r4, r5, r6, r7}\n\t"
        "lsrs r3, r3, #1\n\t"
        "bcc 2f\n\t"
        MCT_PAIRS_QUAD
        "cmp r3, #0\n\t"
        "beq 3f\n\t"
        "2:\n\t"
        MCT_PAIRS_QUAD
        MCT_PAIRS_QUAD
        "subs r3, r3, #1\n\t"
        "bne 2b\n\t"
        "3:\n\t"
        "stm r0!, {r4, r5, r6, r7}\n\t"
        "ldr r8, [sp, #8]\n\t"
        "add r2, r2, r8\n\t"
        "subs lr, lr, #1\n\t"
        "bne 1b\n\t"
        "add sp, sp, #12\n\t"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t");
}

/* clang-format on */

#else

void mct_tile_pairs_run(const mct_tile_pairs *t) {
    const int16_t *stream = t->stream;
    for (int32_t i = 0; i < t->count; i++) {
        mct_sums4 sums;
        memcpy(sums.lane, t->sums + 4 * i, sizeof sums.lane);
        mct_pairs_add(t->panel, stream, 4 * t->quads, &sums);
        memcpy(t->sums + 4 * i, sums.lane, sizeof sums.lane);
        stream += 4 * t->quads + t->stride / 2;
    }
}

#endif
