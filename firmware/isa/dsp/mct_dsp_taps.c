/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_taps.h"

#include <stddef.h>

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

_Static_assert(offsetof(mct_tile_taps, rows) == 24, "order");

/* A line is an instruction. */
/* clang-format off */

/* A word of dy, at the words a, b of x: sums at x + 0, + 1, + 2, of which the middle one takes the inner
 * halves, exchanged. */
#define MCT_TAP1(dy, a, b)                                                                         \
    "smlad r4, " dy ", " a ", r4\n\t"
#define MCT_TAP2(dy, a, b)                                                                         \
    "pkhbt r3, " b ", " a "\n\t"                                                                   \
    MCT_TAP1(dy, a, b)                                                                             \
    "smladx r5, " dy ", r3, r5\n\t"
#define MCT_TAP3(dy, a, b)                                                                         \
    MCT_TAP2(dy, a, b)                                                                             \
    "smlad r6, " dy ", " b ", r6\n\t"

/* Four words of dy. r11 has the word of x that comes first, before and after. */
#define MCT_TAPS_QUAD(MCT_TAP)                                                                     \
    "ldm r0!, {r7, r8, r9, r10}\n\t"                                                               \
    "ldrd r12, lr, [r1], #8\n\t"                                                                   \
    MCT_TAP("r7", "r11", "r12")                                                                    \
    MCT_TAP("r8", "r12", "lr")                                                                     \
    "ldrd r12, r11, [r1], #8\n\t"                                                                  \
    MCT_TAP("r9", "lr", "r12")                                                                     \
    MCT_TAP("r10", "r12", "r11")

/* Two words of dy by four sums, at the words a, b, of which r3 has the inner halves; c, d: the next ones,
 * of which d may be a. */
#define MCT_TAPS4_TWO(a, b, c, d)                                                                  \
    "ldrd r8, r9, [r0], #8\n\t"                                                                    \
    "ldr " c ", [r1], #4\n\t"                                                                      \
    "smlad r4, r8, " a ", r4\n\t"                                                                  \
    "smladx r5, r8, r3, r5\n\t"                                                                    \
    "pkhbt r10, " c ", " b "\n\t"                                                                  \
    "smlad r6, r8, " b ", r6\n\t"                                                                  \
    "smladx r7, r8, r10, r7\n\t"                                                                   \
    "ldr " d ", [r1], #4\n\t"                                                                      \
    "smlad r4, r9, " b ", r4\n\t"                                                                  \
    "smladx r5, r9, r10, r5\n\t"                                                                   \
    "pkhbt r3, " d ", " c "\n\t"                                                                   \
    "smlad r6, r9, " c ", r6\n\t"                                                                  \
    "smladx r7, r9, r3, r7\n\t"
#define MCT_TAPS4_QUAD                                                                             \
    MCT_TAPS4_TWO("r11", "r12", "lr", "r11")                                                       \
    MCT_TAPS4_TWO("lr", "r11", "r12", "lr")                                                        \
    "mov r11, r12\n\t"                                                                             \
    "mov r12, lr\n\t"

#define MCT_NO_MORE
#define MCT_ONE_MORE                                                                               \
    "ldr r12, [r1], #4\n\t"                                                                        \
    "pkhbt r3, r12, r11\n\t"

/* r0 dy, r1 x, r2 quads left, r4 … sums. On the stack: 0 dy, x, quads, sums, pitch, to_next, rows left. */
#define MCT_TAPS(name, load, store, MCT_MORE, MCT_QUAD)                                                   \
    static __attribute__((naked, noinline)) void name(const mct_tile_taps *t                       \
                                                      __attribute__((unused))) {                   \
        __asm__ volatile(                                                                          \
            "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"                                      \
            "ldm r0, {r0, r1, r2, r3, r4, r5, r6}\n\t"                                             \
            "push {r0, r1, r2, r3, r4, r5, r6}\n\t"                                                \
            "1:\n\t"                                                                               \
            load "\n\t"                                                                          \
            "ldr r11, [r1], #4\n\t"                                                                \
            MCT_MORE                                                                               \
            "2:\n\t"                                                                               \
            MCT_QUAD                                                                               \
            "subs r2, r2, #1\n\t"                                                                  \
            "bne 2b\n\t"                                                                           \
            "ldrd r3, r8, [sp, #12]\n\t"                                                           \
            store "\n\t"                                                                         \
            "ldr r9, [sp, #20]\n\t"                                                                \
            "add r3, r3, r9\n\t"                                                                   \
            "ldm sp, {r0, r1, r2}\n\t"                                                             \
            "add r1, r1, r8\n\t"                                                                   \
            "str r1, [sp, #4]\n\t"                                                                 \
            "str r3, [sp, #12]\n\t"                                                                \
            "ldr r8, [sp, #24]\n\t"                                                                \
            "subs r8, r8, #1\n\t"                                                                  \
            "str r8, [sp, #24]\n\t"                                                                \
            "bne 1b\n\t"                                                                           \
            "add sp, sp, #28\n\t"                                                                  \
            "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t");                                     \
    }

/* A list of one register is no instruction. */
MCT_TAPS(mct_taps1_run, "ldr r4, [r3]", "str r4, [r3]", MCT_NO_MORE, MCT_TAPS_QUAD(MCT_TAP1))
MCT_TAPS(mct_taps2_run, "ldm r3, {r4, r5}", "stm r3, {r4, r5}", MCT_NO_MORE,
         MCT_TAPS_QUAD(MCT_TAP2))
MCT_TAPS(mct_taps3_run, "ldm r3, {r4, r5, r6}", "stm r3, {r4, r5, r6}", MCT_NO_MORE,
         MCT_TAPS_QUAD(MCT_TAP3))
MCT_TAPS(mct_taps4_run, "ldm r3, {r4, r5, r6, r7}", "stm r3, {r4, r5, r6, r7}", MCT_ONE_MORE,
         MCT_TAPS4_QUAD)

/* clang-format on */

void mct_tile_taps_run(const mct_tile_taps *t, int32_t width) {
    if (width == 1) {
        mct_taps1_run(t);
    } else if (width == 2) {
        mct_taps2_run(t);
    } else if (width == 3) {
        mct_taps3_run(t);
    } else {
        mct_taps4_run(t);
    }
}

#else

/* Number n of pairs. */
static int32_t mct_taps_at(const uint32_t *pairs, int32_t n) {
    return n % 2 == 0 ? mct_low(pairs[n / 2]) : mct_high(pairs[n / 2]);
}

void mct_tile_taps_run(const mct_tile_taps *t, int32_t width) {
    for (int32_t row = 0; row < t->rows; row++) {
        const uint32_t *x = t->x + row * (t->pitch / 4);
        for (int32_t j = 0; j < width; j++) {
            int32_t sum = t->sums[row * (t->to_next / 4) + j];
            for (int32_t n = 0; n < 8 * t->quads; n += 2) {
                const uint32_t seen = mct_pair(mct_taps_at(x, n + j), mct_taps_at(x, n + 1 + j));
                sum = mct_dot(t->dy[n / 2], seen, sum);
            }
            t->sums[row * (t->to_next / 4) + j] = sum;
        }
    }
}

#endif
