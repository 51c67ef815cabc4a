/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_add.h"

#include <stddef.h>

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

_Static_assert(offsetof(mct_tile_add, bits) == 44, "order");

/* A line is an instruction. */
/* clang-format off */

#define MCT_ADD_ONE                                                                                \
    "ldrsb r12, [r1], #1\n\t"                                                                      \
    "add r12, r5, r12, lsl #21\n\t"                                                                \
    "smmlar lr, r12, r6, r7\n\t"                                                                   \
    "add lr, lr, r12, asr #31\n\t"                                                                 \
    "ldrsb r12, [r0], #1\n\t"                                                                      \
    "asr lr, lr, r8\n\t"                                                                           \
    "add r12, r4, r12, lsl #20\n\t"                                                                \
    "add r12, r12, lr, lsl #1\n\t"                                                                 \
    "smmlar lr, r12, r9, r10\n\t"                                                                  \
    "add lr, lr, r12, asr #31\n\t"                                                                 \
    "asr lr, lr, r11\n\t"                                                                          \
    "ssat lr, #8, lr, asr #1\n\t"                                                                  \
    "strb lr, [r2], #1\n\t"

/* Registers have the fields in their order. */
__attribute__((naked, noinline)) void
mct_tile_add_run(const mct_tile_add *t __attribute__((unused))) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
        "ldm r0, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11}\n\t"
        "1:\n\t"
        MCT_ADD_ONE
        MCT_ADD_ONE
        MCT_ADD_ONE
        MCT_ADD_ONE
        "cmp r0, r3\n\t"
        "bne 1b\n\t"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t");
}

/* clang-format on */

#else

void mct_tile_add_run(const mct_tile_add *t) {
    const int32_t count = (int32_t)(t->end - t->whole), one = 1 << MCT_TILE_ADD_SHIFT;
    for (int32_t i = 0; i < count; i++) {
        const int32_t x = t->other_start + t->other[i] * (2 * one);
        const int32_t product = mct_add_high_product(t->other_half, x, t->other_mult_q31);
        const int32_t other = (product + (x >> 31)) >> t->other_bits;
        const int32_t twice = t->start + t->whole[i] * one + 2 * other;
        const int32_t scaled = mct_add_high_product(t->half, twice, t->mult_q31);
        t->y[i] = (int8_t)mct_half_saturate8((scaled + (twice >> 31)) >> t->bits);
    }
}

#endif
