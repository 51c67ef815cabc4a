/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_plane.h"

#include <stddef.h>

#include "mct_dsp_store.h"

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

_Static_assert(sizeof(mct_dsp_channel) == 16 && offsetof(mct_dsp_channel, mult_q31) == 4, "order");
_Static_assert(offsetof(mct_tile_plane, row) == 24, "order");
_Static_assert(offsetof(mct_tile_plane, store) == 56, "order");
_Static_assert(offsetof(mct_tile_load, plus) == 36, "order");
_Static_assert(offsetof(mct_tile_filter, twice) == 20, "order");
_Static_assert(MCT_POOL_WORDS == 108, "the offsets 432, 864, 1296 and 1300");

/* A line is an instruction. */
/* clang-format off */

/* Three weights of a row at four columns; w: where they are on the stack. begin, next: what the four
 * sums begin with, and what comes before the second half. */
#define MCT_ROW3_OF(row, w, s4, s5, s6, s7)                                                        \
    "ldrd r8, r9, [" row "], #8\n\t"                                                               \
    "ldrd r11, lr, [sp, #" w "]\n\t"                                                               \
    "smlad r4, r8, r11, " s4 "\n\t"                                                                \
    "smlatb r5, r8, r11, " s5 "\n\t"                                                               \
    "smlad r6, r9, r11, " s6 "\n\t"                                                                \
    "smlatb r7, r9, r11, " s7 "\n\t"                                                               \
    "ldr r10, [" row "]\n\t"                                                                       \
    "smlabt r4, r9, lr, r4\n\t"                                                                    \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlabt r6, r10, lr, r6\n\t"                                                                   \
    "smlad r7, r10, lr, r7\n\t"
#define MCT_ROW3(row, w)                                                                           \
    MCT_ROW3_OF(row, w, "r4", "r5", "r6", "r7")
#define MCT_FIRST_ROW3(row, w)                                                                     \
    "ldr r10, [sp, #40]\n\t"                                                                       \
    MCT_ROW3_OF(row, w, "r10", "r10", "r10", "r10")

/* The same at every second column. */
#define MCT_ROW3_BY2_OF(row, w, s4, s5, s6, s7)                                                    \
    "ldrd r8, r9, [" row "], #8\n\t"                                                               \
    "ldrd r11, lr, [sp, #" w "]\n\t"                                                               \
    "smlad r4, r8, r11, " s4 "\n\t"                                                                \
    "smlad r5, r9, r11, " s5 "\n\t"                                                                \
    "smlabb r4, r9, lr, r4\n\t"                                                                    \
    "ldrd r8, r9, [" row "], #8\n\t"                                                               \
    "smlad r6, r8, r11, " s6 "\n\t"                                                                \
    "smlad r7, r9, r11, " s7 "\n\t"                                                                \
    "ldr r10, [" row "]\n\t"                                                                       \
    "smlabb r5, r8, lr, r5\n\t"                                                                    \
    "smlabb r6, r9, lr, r6\n\t"                                                                    \
    "smlabb r7, r10, lr, r7\n\t"
#define MCT_ROW3_BY2(row, w)                                                                       \
    MCT_ROW3_BY2_OF(row, w, "r4", "r5", "r6", "r7")
#define MCT_FIRST_ROW3_BY2(row, w)                                                                 \
    "ldr r10, [sp, #40]\n\t"                                                                       \
    MCT_ROW3_BY2_OF(row, w, "r10", "r10", "r10", "r10")

/* Wider kernels: r0 pitch, r1 a row of the plane, r2 of weights, r3 rows left. Two columns take pairs
 * of weights that begin at the first one, two those that begin at the second. */
#define MCT_ROW5                                                                                   \
    "ldm r1, {r8, r9, r10, r12}\n\t"                                                               \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    "smlad r4, r8, r11, r4\n\t"                                                                    \
    "smlatb r5, r8, r11, r5\n\t"                                                                   \
    "smlad r6, r9, r11, r6\n\t"                                                                    \
    "smlatb r7, r9, r11, r7\n\t"                                                                   \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlad r7, r10, lr, r7\n\t"                                                                    \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    "smlad r4, r9, r11, r4\n\t"                                                                    \
    "smlad r6, r10, r11, r6\n\t"                                                                   \
    "smlad r5, r10, lr, r5\n\t"                                                                    \
    "smlad r7, r12, lr, r7\n\t"                                                                    \
    "smlabt r4, r10, lr, r4\n\t"                                                                   \
    "smlabt r6, r12, lr, r6\n\t"
#define MCT_ROW7                                                                                   \
    "ldm r1, {r8, r9, r10, r12}\n\t"                                                               \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    "smlad r4, r8, r11, r4\n\t"                                                                    \
    "smlatb r5, r8, r11, r5\n\t"                                                                   \
    "smlad r6, r9, r11, r6\n\t"                                                                    \
    "smlatb r7, r9, r11, r7\n\t"                                                                   \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlad r7, r10, lr, r7\n\t"                                                                    \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    "ldr r8, [r1, #16]\n\t"                                                                        \
    "smlad r4, r9, r11, r4\n\t"                                                                    \
    "smlad r6, r10, r11, r6\n\t"                                                                   \
    "smlad r5, r10, lr, r5\n\t"                                                                    \
    "smlad r7, r12, lr, r7\n\t"                                                                    \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    "smlad r4, r10, r11, r4\n\t"                                                                   \
    "smlad r6, r12, r11, r6\n\t"                                                                   \
    "smlad r5, r12, lr, r5\n\t"                                                                    \
    "smlad r7, r8, lr, r7\n\t"                                                                     \
    "smlabt r4, r12, lr, r4\n\t"                                                                   \
    "smlabt r6, r8, lr, r6\n\t"
#define MCT_FOUR(product, w, a, b, c, d)                                                           \
    product " r4, " a ", " w ", r4\n\t"                                                            \
    product " r5, " b ", " w ", r5\n\t"                                                            \
    product " r6, " c ", " w ", r6\n\t"                                                            \
    product " r7, " d ", " w ", r7\n\t"
#define MCT_ROW5_BY2                                                                               \
    "ldm r1, {r8, r9, r10, r12}\n\t"                                                               \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    MCT_FOUR("smlad", "r11", "r8", "r9", "r10", "r12")                                             \
    "ldr r8, [r1, #16]\n\t"                                                                        \
    MCT_FOUR("smlad", "lr", "r9", "r10", "r12", "r8")                                              \
    "ldr r9, [r1, #20]\n\t"                                                                        \
    "ldr r11, [r2], #4\n\t"                                                                        \
    MCT_FOUR("smlabb", "r11", "r10", "r12", "r8", "r9")
#define MCT_ROW7_BY2                                                                               \
    "ldm r1, {r8, r9, r10, r12}\n\t"                                                               \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    MCT_FOUR("smlad", "r11", "r8", "r9", "r10", "r12")                                             \
    "ldr r8, [r1, #16]\n\t"                                                                        \
    MCT_FOUR("smlad", "lr", "r9", "r10", "r12", "r8")                                              \
    "ldrd r11, lr, [r2], #8\n\t"                                                                   \
    "ldr r9, [r1, #20]\n\t"                                                                        \
    MCT_FOUR("smlad", "r11", "r10", "r12", "r8", "r9")                                             \
    "ldr r10, [r1, #24]\n\t"                                                                       \
    MCT_FOUR("smlabb", "lr", "r12", "r8", "r9", "r10")

/* A group of four columns; step: from it to the next, in bytes of the plane. */
#define MCT_GROUP3(label, MCT_FIRST, MCT_ROW)                                                      \
    label ":\n\t"                                                                                  \
    MCT_FIRST("r0", "16")                                                                          \
    MCT_ROW("r1", "24")                                                                            \
    MCT_ROW("r2", "32")                                                                            \
    "ldr pc, [sp, #48]\n\t"
#define MCT_GROUP(label, loop, step, MCT_ROW)                                                      \
    label ":\n\t"                                                                                  \
    "strd r3, r12, [sp, #72]\n\t"                                                                  \
    "ldr r1, [sp, #16]\n\t"                                                                        \
    "ldrd r2, r3, [sp, #24]\n\t"                                                                   \
    "add r4, r1, #" step "\n\t"                                                                    \
    "str r4, [sp, #16]\n\t"                                                                        \
    "ldr r4, [sp, #40]\n\t"                                                                        \
    "mov r5, r4\n\t"                                                                               \
    "mov r6, r4\n\t"                                                                               \
    "mov r7, r4\n\t"                                                                               \
    loop ":\n\t"                                                                                   \
    MCT_ROW                                                                                        \
    "add r1, r1, r0\n\t"                                                                           \
    "subs r3, r3, #1\n\t"                                                                          \
    "bne " loop "b\n\t"                                                                            \
    "ldrd r3, r12, [sp, #72]\n\t"                                                                  \
    "ldr pc, [sp, #48]\n\t"

/* The next group, or the end of the row. */
#define MCT_NEXT_GROUP                                                                             \
    "subs r12, r12, #1\n\t"                                                                        \
    "it ne\n\t"                                                                                    \
    "ldrne pc, [sp, #44]\n\t"                                                                      \
    "ldr r8, [sp, #68]\n\t"                                                                        \
    "add r3, r3, r8\n\t"                                                                           \
    "ldr pc, [sp, #84]\n\t"

#define MCT_BYTES_BY(label, shift)                                                                 \
    label ":\n\t"                                                                                  \
    "ldm sp, {r8, r9, r10, r11}\n\t"                                                               \
    MCT_REQUANTIZE_BY(shift, "r10", "lr")                                                          \
    MCT_STORE_FOUR("r3", "r11")                                                                    \
    MCT_NEXT_GROUP

/* r3 results, r12 groups left in the row. On the stack: 0 mult_q31, half, bits, stride; 16 the weights of
 * a kernel of width 3, or of wider ones 16 the group's plane, 24 weights and rows of the kernel, 32 pitch,
 * 36 all weights; 40 start; 44 what computes a group; 48 what stores it; 52 groups; 56 the table's row and
 * end; 64 plane; 68 to_next; 72 results and groups left, meanwhile; 80 notes; 84 what begins a row; 88 the
 * argument. */
__attribute__((naked, noinline)) void
mct_tile_plane_run(mct_tile_plane *t __attribute__((unused))) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
        "sub sp, sp, #92\n\t"
        "str r0, [sp, #88]\n\t"
        "ldrd r1, r2, [r0, #28]\n\t"
        "str r1, [sp, #60]\n\t"
        "str r2, [sp, #12]\n\t"
        "ldrd r1, r2, [r0, #36]\n\t"
        "str r1, [sp, #52]\n\t"
        "str r2, [sp, #32]\n\t"
        "ldr r1, [r0, #44]\n\t"
        "str r1, [sp, #68]\n\t"
        "ldrd r4, r5, [r0, #52]\n\t"
        "adr r6, 10f\n\t"
        "ldr r7, [r6, r4, lsl #2]\n\t"
        "add r7, r7, r6\n\t"
        "add r5, r5, #6\n\t"
        "ldr r8, [r6, r5, lsl #2]\n\t"
        "add r8, r8, r6\n\t"
        "strd r7, r8, [sp, #44]\n\t"
        "cmp r4, #2\n\t"
        "ite lo\n\t"
        "movlo r5, #9\n\t"
        "movhs r5, #10\n\t"
        "ldr r8, [r6, r5, lsl #2]\n\t"
        "add r8, r8, r6\n\t"
        "str r8, [sp, #84]\n\t"
        /* a channel; r0 the argument */
        "1:\n\t"
        "ldm r0, {r1, r2, r3, r4, r5, r6, r7}\n\t"
        "ldr r12, [r0, #48]\n\t"
        "add r8, r1, #16\n\t"
        "add r9, r2, #432\n\t"
        "add r10, r3, #432\n\t"
        "add r11, r4, r12\n\t"
        "add r12, r5, #1\n\t"
        "sub lr, r6, #1\n\t"
        "stm r0, {r8, r9, r10, r11, r12, lr}\n\t"
        "str r2, [sp, #64]\n\t"
        "str r7, [sp, #56]\n\t"
        "str r5, [sp, #80]\n\t"
        "ldm r1, {r8, r9, r10, r11}\n\t"
        "str r8, [sp, #40]\n\t"
        "stm sp, {r9, r10, r11}\n\t"
        "ldrd r1, r2, [r0, #52]\n\t"
        "cbnz r2, 2f\n\t"
        MCT_CHOOSE_STORE("r11", "9f", "r12")
        "str r11, [sp, #48]\n\t"
        "2:\n\t"
        "mov r12, r3\n\t"
        "mov r3, r4\n\t"
        "cmp r1, #2\n\t"
        "bhs 3f\n\t"
        "ldm r12, {r4, r5, r6, r7, r8, r9}\n\t"
        "add r10, sp, #16\n\t"
        "stm r10, {r4, r5, r6, r7, r8, r9}\n\t"
        "b 20f\n\t"
        "3:\n\t"
        "str r12, [sp, #36]\n\t"
        "b 30f\n\t"
        /* a row of a kernel of width 3: r0, r1, r2 rows of the plane */
        "20:\n\t"
        "ldrd lr, r8, [sp, #56]\n\t"
        "cmp lr, r8\n\t"
        "beq 40f\n\t"
        "ldm lr!, {r0, r1, r2}\n\t"
        "str lr, [sp, #56]\n\t"
        "ldr r8, [sp, #64]\n\t"
        "add r0, r0, r8\n\t"
        "add r1, r1, r8\n\t"
        "add r2, r2, r8\n\t"
        "ldr r12, [sp, #52]\n\t"
        "ldr pc, [sp, #44]\n\t"
        /* a row of a wider one */
        "30:\n\t"
        "ldrd lr, r8, [sp, #56]\n\t"
        "cmp lr, r8\n\t"
        "beq 40f\n\t"
        "ldm lr!, {r0, r1, r2}\n\t"
        "str lr, [sp, #56]\n\t"
        "ldr r8, [sp, #64]\n\t"
        "add r8, r8, r0\n\t"
        "ldrd r0, r9, [sp, #32]\n\t"
        "add r1, r1, r9\n\t"
        "str r8, [sp, #16]\n\t"
        "strd r1, r2, [sp, #24]\n\t"
        "ldr r12, [sp, #52]\n\t"
        "ldr pc, [sp, #44]\n\t"
        "40:\n\t"
        "ldr r0, [sp, #88]\n\t"
        "ldr r1, [r0, #20]\n\t"
        "cmp r1, #0\n\t"
        "bne 1b\n\t"
        "add sp, sp, #92\n\t"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"
        ".balign 4\n\t"
        "10:\n\t"
        ".word 11f - 10b + 1\n\t"
        ".word 12f - 10b + 1\n\t"
        ".word 13f - 10b + 1\n\t"
        ".word 14f - 10b + 1\n\t"
        ".word 15f - 10b + 1\n\t"
        ".word 16f - 10b + 1\n\t"
        ".word 17f - 10b + 1\n\t"
        ".word 18f - 10b + 1\n\t"
        ".word 19f - 10b + 1\n\t"
        ".word 20b - 10b + 1\n\t"
        ".word 30b - 10b + 1\n\t"
        "9:\n\t"
        ".word 21f - 9b + 1\n\t"
        ".word 22f - 9b + 1\n\t"
        ".word 23f - 9b + 1\n\t"
        ".word 24f - 9b + 1\n\t"
        ".word 25f - 9b + 1\n\t"
        ".word 17f - 9b + 1\n\t"
        MCT_GROUP3("11", MCT_FIRST_ROW3, MCT_ROW3)
        MCT_GROUP3("12", MCT_FIRST_ROW3_BY2, MCT_ROW3_BY2)
        MCT_GROUP("13", "1", "8", MCT_ROW5)
        MCT_GROUP("14", "1", "16", MCT_ROW5_BY2)
        MCT_GROUP("15", "1", "8", MCT_ROW7)
        MCT_GROUP("16", "1", "16", MCT_ROW7_BY2)
        /* bytes */
        "17:\n\t"
        "ldm sp, {r8, r9, r10, r11}\n\t"
        MCT_REQUANTIZE("r4", "r5")
        MCT_REQUANTIZE("r6", "r7")
        MCT_STORE_FOUR("r3", "r11")
        MCT_NEXT_GROUP
        MCT_BYTES_BY("21", "5")
        MCT_BYTES_BY("22", "6")
        MCT_BYTES_BY("23", "7")
        MCT_BYTES_BY("24", "8")
        MCT_BYTES_BY("25", "9")
        /* noted: r4 is free once its sum is a byte */
        "18:\n\t"
        "ldm sp, {r8, r9, r10, r11}\n\t"
        MCT_REQUANTIZE_NOTED("r4")
        "strb lr, [r3]\n\t"
        "ite eq\n\t"
        "moveq r4, #1\n\t"
        "movne r4, #0\n\t"
        MCT_REQUANTIZE_NOTED("r5")
        "strb lr, [r3, r11]\n\t"
        "it eq\n\t"
        "orreq r4, r4, #2\n\t"
        "add r3, r3, r11, lsl #1\n\t"
        MCT_REQUANTIZE_NOTED("r6")
        "strb lr, [r3]\n\t"
        "it eq\n\t"
        "orreq r4, r4, #4\n\t"
        MCT_REQUANTIZE_NOTED("r7")
        "strb lr, [r3, r11]\n\t"
        "it eq\n\t"
        "orreq r4, r4, #8\n\t"
        "add r3, r3, r11, lsl #1\n\t"
        "ldr r8, [sp, #80]\n\t"
        "strb r4, [r8], #4\n\t"
        "str r8, [sp, #80]\n\t"
        MCT_NEXT_GROUP
        /* sums */
        "19:\n\t"
        "ldr r8, [sp, #12]\n\t"
        "str r4, [r3]\n\t"
        "str r5, [r3, r8]\n\t"
        "add r3, r3, r8, lsl #1\n\t"
        "str r6, [r3]\n\t"
        "str r7, [r3, r8]\n\t"
        "add r3, r3, r8, lsl #1\n\t"
        MCT_NEXT_GROUP);
}

/* Two pixels a, b, of which b comes free: words of channel 0 and 2 in x and y, of 1 and 3 in a and b. */
#define MCT_WEAVE(a, b, x, y, z)                                                                   \
    "sxtab16 " z ", r12, " a "\n\t"                                                                \
    "sxtab16 " a ", r12, " a ", ror #8\n\t"                                                        \
    "sxtab16 " y ", r12, " b "\n\t"                                                                \
    "sxtab16 " b ", r12, " b ", ror #8\n\t"                                                        \
    "pkhbt " x ", " z ", " y ", lsl #16\n\t"                                                       \
    "pkhtb " y ", " y ", " z ", asr #16\n\t"                                                       \
    "pkhbt " z ", " a ", " b ", lsl #16\n\t"                                                       \
    "pkhtb " b ", " b ", " a ", asr #16\n\t"
/* Words of the channels 0 … 3 to the planes at r2. */
#define MCT_SPREAD(c0, c1, c2, c3)                                                                 \
    "str " c1 ", [r2, #432]\n\t"                                                                   \
    "str " c2 ", [r2, #864]\n\t"                                                                   \
    "str " c3 ", [r2, #1296]\n\t"                                                                  \
    "str " c0 ", [r2], #4\n\t"

/* r0 pixels, r1 from one to the next, r2 plane, r3 quads, r12 plus. */
__attribute__((naked, noinline)) void mct_tile_load_run(mct_tile_load *t __attribute__((unused))) {
    __asm__ volatile(
        "push {r0, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
        "ldrd r1, r12, [r0, #32]\n\t"
        "1:\n\t"
        "ldr lr, [sp]\n\t"
        "ldm lr, {r0, r4, r5, r6}\n\t"
        "add r4, r4, r0\n\t"
        "str r4, [lr]\n\t"
        "mov r2, r5\n\t"
        "add r5, r5, r6\n\t"
        "str r5, [lr, #8]\n\t"
        "ldrd r4, r3, [lr, #20]\n\t"
        "cmp r4, #0\n\t"
        "beq 2f\n\t"
        "ldr r4, [r0]\n\t"
        "add r0, r0, r1\n\t"
        "mov r8, #0\n\t"
        "sxtab16 r5, r12, r4\n\t"
        "sxtab16 r4, r12, r4, ror #8\n\t"
        "lsls r6, r5, #16\n\t"
        "lsls r7, r4, #16\n\t"
        "pkhtb r5, r5, r8, asr #16\n\t"
        "pkhtb r4, r4, r8, asr #16\n\t"
        MCT_SPREAD("r6", "r7", "r5", "r4")
        "2:\n\t"
        "cmp r3, #0\n\t"
        "beq 4f\n\t"
        "3:\n\t"
        "ldr r4, [r0]\n\t"
        "ldr r5, [r0, r1]\n\t"
        "add r0, r0, r1, lsl #1\n\t"
        MCT_WEAVE("r4", "r5", "r8", "r7", "r6")
        "ldr r4, [r0]\n\t"
        "ldr r9, [r0, r1]\n\t"
        "add r0, r0, r1, lsl #1\n\t"
        MCT_WEAVE("r4", "r9", "lr", "r11", "r10")
        "strd r6, r10, [r2, #432]\n\t"
        "strd r7, r11, [r2, #864]\n\t"
        "str r5, [r2, #1296]\n\t"
        "str r9, [r2, #1300]\n\t"
        "strd r8, lr, [r2], #8\n\t"
        "subs r3, r3, #1\n\t"
        "bne 3b\n\t"
        "4:\n\t"
        "ldr lr, [sp]\n\t"
        "ldr r3, [lr, #28]\n\t"
        "lsrs r3, r3, #1\n\t"
        "beq 5f\n\t"
        "ldr r4, [r0]\n\t"
        "ldr r5, [r0, r1]\n\t"
        "add r0, r0, r1, lsl #1\n\t"
        MCT_WEAVE("r4", "r5", "r8", "r7", "r6")
        MCT_SPREAD("r8", "r6", "r7", "r5")
        "5:\n\t"
        "bcc 6f\n\t"
        "ldr r4, [r0]\n\t"
        "sxtab16 r5, r12, r4\n\t"
        "sxtab16 r4, r12, r4, ror #8\n\t"
        "uxth r6, r5\n\t"
        "uxth r7, r4\n\t"
        "lsrs r5, r5, #16\n\t"
        "lsrs r4, r4, #16\n\t"
        MCT_SPREAD("r6", "r7", "r5", "r4")
        "6:\n\t"
        "ldr r3, [lr, #16]\n\t"
        "subs r3, r3, #1\n\t"
        "str r3, [lr, #16]\n\t"
        "bne 1b\n\t"
        "pop {r0, r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t");
}

/* A weight to r7 and r8, behind those in r4 and r5; r0 weights, r1 step, r2 to, r12 twice. */
#define MCT_TAP(even, odd)                                                                         \
    "ldr r6, [r0]\n\t"                                                                            \
    "add r0, r0, r1\n\t"                                                                          \
    "and r9, r6, r12\n\t"                                                                         \
    "sxtb16 " even ", r6\n\t"                                                                     \
    "sxtb16 " odd ", r6, ror #8\n\t"                                                              \
    "sxtab16 " even ", " even ", r9\n\t"                                                          \
    "sxtab16 " odd ", " odd ", r9, ror #8\n\t"
#define MCT_PAIR(even, odd, next_even, next_odd)                                                   \
    "pkhbt r6, " even ", " next_even ", lsl #16\n\t"                                              \
    "pkhbt r9, " odd ", " next_odd ", lsl #16\n\t"                                                \
    "pkhtb r10, " next_even ", " even ", asr #16\n\t"                                             \
    "pkhtb r11, " next_odd ", " odd ", asr #16\n\t"                                               \
    MCT_SPREAD("r6", "r9", "r10", "r11")

/* r3 weights left, lr zeros left. */
__attribute__((naked, noinline)) void
mct_tile_filter_run(const mct_tile_filter *t __attribute__((unused))) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
        "ldr lr, [r0, #16]\n\t"
        "ldrd r12, r4, [r0, #20]\n\t"
        "ldm r0, {r0, r1, r2, r3}\n\t"
        "cmp r4, #0\n\t"
        "bne 5f\n\t"
        MCT_TAP("r4", "r5")
        "subs r3, r3, #1\n\t"
        "beq 2f\n\t"
        "1:\n\t"
        MCT_TAP("r7", "r8")
        MCT_PAIR("r4", "r5", "r7", "r8")
        "subs r3, r3, #1\n\t"
        "itt eq\n\t"
        "moveq r4, r7\n\t"
        "moveq r5, r8\n\t"
        "beq 2f\n\t"
        MCT_TAP("r4", "r5")
        MCT_PAIR("r7", "r8", "r4", "r5")
        "subs r3, r3, #1\n\t"
        "bne 1b\n\t"
        "2:\n\t"
        "movs r7, #0\n\t"
        "mov r8, #0\n\t"
        "3:\n\t"
        "subs lr, lr, #1\n\t"
        "blt 4f\n\t"
        MCT_PAIR("r4", "r5", "r7", "r8")
        "movs r4, #0\n\t"
        "movs r5, #0\n\t"
        "b 3b\n\t"
        "4:\n\t"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"
        "5:\n\t"
        "subs r3, r3, #2\n\t"
        "blt 6f\n\t"
        MCT_TAP("r4", "r5")
        MCT_TAP("r7", "r8")
        MCT_PAIR("r4", "r5", "r7", "r8")
        "b 5b\n\t"
        "6:\n\t"
        "mov r7, #0\n\t"
        "mov r8, #0\n\t"
        "adds r3, r3, #2\n\t"
        "beq 7f\n\t"
        MCT_TAP("r4", "r5")
        MCT_PAIR("r4", "r5", "r7", "r8")
        "subs lr, lr, #1\n\t"
        "7:\n\t"
        "subs lr, lr, #1\n\t"
        "blt 4b\n\t"
        MCT_SPREAD("r7", "r7", "r7", "r7")
        "subs lr, lr, #1\n\t"
        "b 7b\n\t");
}

/* clang-format on */

#else

/* Two pixels of four channels, as pairs, to the planes. */
static void mct_plane_spread(const int32_t first[4], const int32_t second[4], uint32_t *to) {
    for (int32_t l = 0; l < 4; l++) {
        to[l * MCT_POOL_WORDS] = mct_pair(first[l], second[l]);
    }
}

void mct_tile_load_run(mct_tile_load *t) {
    const int32_t plus = mct_low(t->plus), count = t->lead + 4 * t->quads + t->rest;
    for (int32_t row = 0; row < t->rows; row++) {
        const int8_t *from = t->from + row * t->row_bytes;
        uint32_t *to = t->to + row * (t->pitch / 4);
        int32_t pair[2][4] = {{0}};
        for (int32_t i = t->lead, pixel = 0; pixel < count; i++, pixel++, from += t->pixel) {
            for (int32_t l = 0; l < 4; l++) {
                pair[i % 2][l] = from[l] + plus;
                pair[1][l] = i % 2 == 0 ? 0 : pair[1][l];
            }
            if (i % 2 == 1 || pixel + 1 == count) {
                mct_plane_spread(pair[0], pair[1], to++);
            }
        }
    }
}

void mct_tile_filter_run(const mct_tile_filter *t) {
    const int32_t factor = t->twice != 0 ? 2 : 1;
    uint32_t *to = t->to;
    int32_t before[4] = {0};
    for (int32_t i = 0; i < t->taps + t->zeros; i++) {
        int32_t now[4];
        for (int32_t l = 0; l < 4; l++) {
            now[l] = i < t->taps ? factor * t->from[i * t->step + l] : 0;
        }
        if (i > 0 && (i % 2 == 1 || !t->apart)) {
            mct_plane_spread(before, now, to++);
        }
        memcpy(before, now, sizeof now);
    }
    if (t->apart && (t->taps + t->zeros) % 2 == 1) {
        const int32_t zeros[4] = {0};
        mct_plane_spread(before, zeros, to);
    }
}

/* Column `column` of the plane's row that begins at `row`. */
static int32_t mct_plane_at(const mct_tile_plane *t, uint32_t row, int32_t column) {
    const uint32_t pair = t->plane[(int32_t)(row / 4) + column / 2];
    return column % 2 == 0 ? mct_low(pair) : mct_high(pair);
}

/* sum + a row of the kernel, whose weights begin at `weights`, from the plane's column on */
static int32_t mct_plane_row(const mct_tile_plane *t, uint32_t row, uint32_t weights,
                             int32_t column, int32_t sum) {
    const int32_t last = t->kind / 2 * 2 + 2, apart = t->kind % 2;
    const uint32_t *w = t->filters + weights / 4;
    for (int32_t kx = 0; kx <= last; kx++) {
        const uint32_t x = mct_pair(mct_plane_at(t, row, column + kx), 0);
        const uint32_t pair = w[apart ? kx / 2 : mct_min(kx, last - 1)];
        const int high = apart ? kx % 2 : kx == last;
        sum = high ? mct_mul_low_high(x, pair, sum) : mct_mul_low_low(x, pair, sum);
    }
    return sum;
}

static int32_t mct_plane_sum(const mct_tile_plane *t, const uint32_t row[3], int32_t column) {
    int32_t sum = t->channel->start;
    if (t->kind < MCT_PLANE_WIDTH5) {
        for (uint32_t ky = 0; ky < 3; ky++) {
            sum = mct_plane_row(t, row[ky], 8 * ky, column, sum);
        }
        return sum;
    }
    static const uint32_t bytes[4] = {16, 12, 24, 16};
    const uint32_t filter_bytes = bytes[t->kind - MCT_PLANE_WIDTH5];
    for (uint32_t ky = 0; ky < row[2]; ky++) {
        sum = mct_plane_row(t, row[0] + ky * (uint32_t)t->pitch, row[1] + ky * filter_bytes, column,
                            sum);
    }
    return sum;
}

/* The channel in hand. */
static void mct_plane_channel(const mct_tile_plane *t) {
    uint8_t *result = t->result, *notes = t->notes;
    for (const uint32_t *row = t->row; row < t->end; row += 3, result += t->to_next) {
        for (int32_t column = 0; column < 4 * t->groups; column++, result += t->stride) {
            const int32_t sum = mct_plane_sum(t, row, column * (t->kind % 2 + 1));
            if (t->store == MCT_PLANE_SUMS) {
                memcpy(result, &sum, sizeof sum);
                continue;
            }
            const int32_t value = mct_dsp_scaled(t->channel, sum) >> 1;
            *result = (uint8_t)mct_saturate8(value);
            if (t->store == MCT_PLANE_NOTED) {
                const uint8_t before = column % 4 == 0 ? 0 : *notes;
                *notes = (uint8_t)(before | (value == mct_saturate8(value)) << column % 4);
                notes += column % 4 == 3 ? 4 : 0;
            }
        }
    }
}

void mct_tile_plane_run(mct_tile_plane *t) {
    for (; t->channels > 0; t->channels--) {
        mct_plane_channel(t);
        if (t->channels == 1) {
            continue; /* nothing lies behind the last one */
        }
        t->channel++;
        t->plane += MCT_POOL_WORDS;
        t->filters += MCT_POOL_WORDS;
        t->result = (uint8_t *)t->result + t->to_channel;
        t->notes = t->notes == NULL ? NULL : t->notes + 1;
    }
}

#endif
