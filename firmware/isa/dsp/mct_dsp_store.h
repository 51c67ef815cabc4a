/* SPDX-License-Identifier: Apache-2.0 */
/* From four sums, r4 … r7, to int8 in assembly: what the tiles have in common. */
#ifndef MCT_DSP_STORE_H
#define MCT_DSP_STORE_H

/* A line is an instruction. */
/* clang-format off */

/* Two sums to int8. r8 mult_q31, r9 half, r10 bits; lr is used. */
#define MCT_REQUANTIZE(a, b)                                                                       \
    "smmlar lr, " a ", r8, r9\n\t"                                                                 \
    "add " a ", lr, " a ", asr #31\n\t"                                                            \
    "smmlar lr, " b ", r8, r9\n\t"                                                                 \
    "add " b ", lr, " b ", asr #31\n\t"                                                            \
    "asr " a ", " a ", r10\n\t"                                                                    \
    "asr " b ", " b ", r10\n\t"                                                                    \
    "ssat " a ", #8, " a ", asr #1\n\t"                                                            \
    "ssat " b ", #8, " b ", asr #1\n\t"

/* One sum to int8 in lr; the flags say whether that saturated: eq, it did not. */
#define MCT_REQUANTIZE_NOTED(a)                                                                    \
    "smmlar lr, " a ", r8, r9\n\t"                                                                 \
    "add " a ", lr, " a ", asr #31\n\t"                                                            \
    "asr " a ", " a ", r10\n\t"                                                                    \
    "ssat lr, #8, " a ", asr #1\n\t"                                                               \
    "cmp lr, " a ", asr #1\n\t"

/* All four; shift: bits + 1. r8 mult_q31, r9 half; one and two are used. */
#define MCT_REQUANTIZE_BY(shift, one, two)                                                         \
    "smmlar " one ", r4, r8, r9\n\t"                                                               \
    "smmlar " two ", r5, r8, r9\n\t"                                                               \
    "add r4, " one ", r4, asr #31\n\t"                                                             \
    "add r5, " two ", r5, asr #31\n\t"                                                             \
    "smmlar " one ", r6, r8, r9\n\t"                                                               \
    "smmlar " two ", r7, r8, r9\n\t"                                                               \
    "add r6, " one ", r6, asr #31\n\t"                                                             \
    "add r7, " two ", r7, asr #31\n\t"                                                             \
    "ssat r4, #8, r4, asr #" shift "\n\t"                                                          \
    "ssat r5, #8, r5, asr #" shift "\n\t"                                                          \
    "ssat r6, #8, r6, asr #" shift "\n\t"                                                          \
    "ssat r7, #8, r7, asr #" shift "\n\t"

/* Four bytes to y, which moves on. */
#define MCT_STORE_FOUR(y, stride)                                                                  \
    "strb r4, [" y "]\n\t"                                                                         \
    "strb r5, [" y ", " stride "]\n\t"                                                             \
    "add " y ", " y ", " stride ", lsl #1\n\t"                                                     \
    "strb r6, [" y "]\n\t"                                                                         \
    "strb r7, [" y ", " stride "]\n\t"                                                             \
    "add " y ", " y ", " stride ", lsl #1\n\t"

/* The address of what stores sums of so many bits, to `bits`: that of the table's first five entries for 4 …
 * 8, most channels' bits, else its sixth. An entry is the distance from the table, and 1. */
#define MCT_CHOOSE_STORE(bits, table, address)                                                     \
    "subs " bits ", " bits ", #4\n\t"                                                              \
    "cmp " bits ", #5\n\t"                                                                         \
    "it hs\n\t"                                                                                    \
    "movhs " bits ", #5\n\t"                                                                       \
    "adr " address ", " table "\n\t"                                                               \
    "ldr " bits ", [" address ", " bits ", lsl #2]\n\t"                                            \
    "add " bits ", " bits ", " address "\n\t"

/* clang-format on */

#endif
