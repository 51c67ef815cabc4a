/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_tiles.h"

#include <stddef.h>

#include "mct_dsp_store.h"

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

#define MCT_NAKED __attribute__((naked, noinline))

_Static_assert(sizeof(mct_dsp_channel) == 16 && offsetof(mct_dsp_channel, mult_q31) == 4, "order");
_Static_assert(offsetof(mct_tile_channels, panel) == 16, "order");
_Static_assert(offsetof(mct_tile_panels, channel) == 32, "order");
_Static_assert(offsetof(mct_tile_panel, panels) == 32, "order");
_Static_assert(offsetof(mct_tile_rows, quads) == 16, "order");
_Static_assert(MCT_TILE_ROW_QUADS == 12, "eleven quads behind the first one");

/* A line is an instruction. */
/* clang-format off */

#define MCT_PUSH                                                                                   \
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
#define MCT_POP                                                                                    \
    "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"

/* 13 instructions of 4 bytes. r1 panel, r2 stream, r4 … r7 sums; r8 … r12 and lr are used. */
#define MCT_QUAD                                                                                   \
    "ldr.w lr, [r2], #4\n\t"                                                                       \
    "ldm.w r1!, {r8, r9, r10, r12}\n\t"                                                            \
    "sxtb16 r11, lr\n\t"                                                                           \
    "sxtb16 lr, lr, ror #8\n\t"                                                                    \
    "smlad r4, r8, r11, r4\n\t"                                                                    \
    "smlad r5, r9, r11, r5\n\t"                                                                    \
    "smlad r6, r10, r11, r6\n\t"                                                                   \
    "smlad r7, r12, r11, r7\n\t"                                                                   \
    "ldm.w r1!, {r8, r9, r10, r12}\n\t"                                                            \
    "smlad r4, r8, lr, r4\n\t"                                                                     \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlad r6, r10, lr, r6\n\t"                                                                    \
    "smlad r7, r12, lr, r7\n\t"

/* The first quad of four sums that begin with r4. */
#define MCT_FIRST_QUAD                                                                             \
    "ldr.w lr, [r2], #4\n\t"                                                                       \
    "ldm.w r1!, {r8, r9, r10, r12}\n\t"                                                            \
    "sxtb16 r11, lr\n\t"                                                                           \
    "sxtb16 lr, lr, ror #8\n\t"                                                                    \
    "smlad r7, r12, r11, r4\n\t"                                                                   \
    "smlad r6, r10, r11, r4\n\t"                                                                   \
    "smlad r5, r9, r11, r4\n\t"                                                                    \
    "smlad r4, r8, r11, r4\n\t"                                                                    \
    "ldm.w r1!, {r8, r9, r10, r12}\n\t"                                                            \
    "smlad r4, r8, lr, r4\n\t"                                                                     \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlad r6, r10, lr, r6\n\t"                                                                    \
    "smlad r7, r12, lr, r7\n\t"

/* Quads in r6 > 0: r6 becomes how often to go through a loop of four, r7 where to enter it. */
#define MCT_ENTER                                                                                  \
    "rsb r7, r6, #0\n\t"                                                                           \
    "and r7, r7, #3\n\t"                                                                           \
    "mov r12, #52\n\t"                                                                             \
    "mul r7, r7, r12\n\t"                                                                          \
    "adr r12, 3f\n\t"                                                                              \
    "add r7, r7, r12\n\t"                                                                          \
    "orr r7, r7, #1\n\t"                                                                           \
    "adds r6, r6, #3\n\t"                                                                          \
    "lsrs r6, r6, #2\n\t"
/* The same for those behind the first one, of which there may be none: then it is label 4. */
#define MCT_ENTER_REST                                                                             \
    "subs r6, r6, #1\n\t"                                                                          \
    MCT_ENTER                                                                                      \
    "cmp r6, #0\n\t"                                                                               \
    "adr r12, 4f\n\t"                                                                              \
    "orr r12, r12, #1\n\t"                                                                         \
    "it eq\n\t"                                                                                    \
    "moveq r7, r12\n\t"
#define MCT_QUADS                                                                                  \
    ".balign 4\n\t"                                                                                \
    "3:\n\t"                                                                                       \
    MCT_QUAD                                                                                       \
    MCT_QUAD                                                                                       \
    MCT_QUAD                                                                                       \
    MCT_QUAD                                                                                       \
    "subs r3, r3, #1\n\t"                                                                          \
    "bne 3b\n\t"                                                                                   \
    ".balign 4\n\t"                                                                                \
    "4:\n\t"

/* The same, and sets its bit of r11 if it did not. */
#define MCT_REQUANTIZE_MARKED(a, bit)                                                              \
    MCT_REQUANTIZE_NOTED(a)                                                                        \
    "it eq\n\t"                                                                                    \
    "orreq r11, r11, #" bit "\n\t"

/* r1 y, r3 stride. */
#define MCT_STORE_PLAIN                                                                            \
    MCT_REQUANTIZE("r4", "r5")                                                                     \
    "strb r4, [r1]\n\t"                                                                            \
    "strb r5, [r1, r3]\n\t"                                                                        \
    "add r4, r1, r3\n\t"                                                                           \
    MCT_REQUANTIZE("r6", "r7")                                                                     \
    "strb r6, [r1, r3, lsl #1]\n\t"                                                                \
    "strb r7, [r4, r3, lsl #1]\n\t"
#define MCT_STORE_NOTED                                                                            \
    "ldr r11, [sp, #28]\n\t"                                                                       \
    "lsrs r11, r11, #1\n\t"                                                                        \
    "and r11, r11, #0x7f7f7f7f\n\t"                                                                \
    MCT_REQUANTIZE_MARKED("r4", "0x80")                                                            \
    "strb lr, [r1]\n\t"                                                                            \
    "add r4, r1, r3\n\t"                                                                           \
    MCT_REQUANTIZE_MARKED("r5", "0x8000")                                                          \
    "strb lr, [r4]\n\t"                                                                            \
    MCT_REQUANTIZE_MARKED("r6", "0x800000")                                                         \
    "strb lr, [r1, r3, lsl #1]\n\t"                                                                \
    MCT_REQUANTIZE_MARKED("r7", "0x80000000")                                                       \
    "strb lr, [r4, r3, lsl #1]\n\t"                                                                \
    "str r11, [sp, #28]\n\t"

/* r0 channel, r1 panel, r2 w, r3 quads by four, r4 … r7 sums; on the stack y, stride, skip, end, panel,
 * quads by four, where to enter, noted. */
#define MCT_CHANNELS(type, name, MCT_STORE)                                                        \
    MCT_NAKED type name(const mct_tile_channels *t __attribute__((unused))) {                      \
        __asm__ volatile(                                                                          \
            MCT_PUSH                                                                               \
            "ldm r0, {r1, r2, r3, r4, r5, r6, r10, r11}\n\t"                                       \
            MCT_ENTER_REST                                                                              \
            "movs r0, #0\n\t"                                                                      \
            "push {r0}\n\t"                                                                        \
            "push {r1, r2, r3, r4, r5, r6, r7}\n\t"                                                \
            "mov r2, r10\n\t"                                                                      \
            "mov r0, r11\n\t"                                                                      \
            "1:\n\t"                                                                               \
            "ldr r4, [r0], #16\n\t"                                                                \
            "ldrd r1, r3, [sp, #16]\n\t"                                                                 \
            MCT_FIRST_QUAD                                                                         \
            "ldr pc, [sp, #24]\n\t"                                                                \
            MCT_QUADS                                                                              \
            "ldmdb r0, {r8, r9, r10}\n\t"                                                          \
            "ldm sp, {r1, r3, r11, r12}\n\t"                                                       \
            "add r2, r2, r11\n\t"                                                                  \
            MCT_STORE                                                                              \
            "adds r1, r1, #1\n\t"                                                                  \
            "str r1, [sp]\n\t"                                                                     \
            "cmp r0, r12\n\t"                                                                      \
            "bne 1b\n\t"                                                                           \
            "ldr r0, [sp, #28]\n\t"                                                                \
            "add sp, sp, #32\n\t"                                                                  \
            MCT_POP);                                                                              \
    }

MCT_CHANNELS(void, mct_tile_channels_run, MCT_STORE_PLAIN)
MCT_CHANNELS(uint32_t, mct_tile_channels_noted, MCT_STORE_NOTED)

/* r0 channel, r1 y, r2 sums, r3 stride, r12 end; on the stack 28 noted. */
#define MCT_SUMS(type, name, MCT_STORE)                                                            \
    MCT_NAKED type name(const mct_tile_sums *t __attribute__((unused))) {                          \
        __asm__ volatile(                                                                          \
            MCT_PUSH                                                                               \
            "sub sp, sp, #32\n\t"                                                                  \
            "ldm r0, {r1, r3, r4, r5, r6}\n\t"                                                     \
            "mov r12, r4\n\t"                                                                      \
            "mov r0, r5\n\t"                                                                       \
            "mov r2, r6\n\t"                                                                       \
            "movs r4, #0\n\t"                                                                      \
            "str r4, [sp, #28]\n\t"                                                                \
            "1:\n\t"                                                                               \
            "ldm r0!, {r7, r8, r9, r10}\n\t"                                                       \
            "ldm r2!, {r4, r5, r6, r7}\n\t"                                                        \
            MCT_STORE                                                                              \
            "adds r1, r1, #1\n\t"                                                                  \
            "cmp r0, r12\n\t"                                                                      \
            "bne 1b\n\t"                                                                           \
            "ldr r0, [sp, #28]\n\t"                                                                \
            "add sp, sp, #32\n\t"                                                                  \
            MCT_POP);                                                                              \
    }

MCT_SUMS(void, mct_tile_sums_run, MCT_STORE_PLAIN)
MCT_SUMS(uint32_t, mct_tile_sums_noted, MCT_STORE_NOTED)

/* What comes behind the quads of a panel; requantize: r4 … r7 to int8. r0 panel, r1 stride, r2 y. */
#define MCT_STORE_PANEL(label, requantize)                                                         \
    label ":\n\t"                                                                                  \
    "ldm sp, {r8, r9, r10, r11}\n\t"                                                               \
    requantize                                                                                     \
    MCT_STORE_FOUR("r2", "r1")                                                                     \
    "cmp r0, r11\n\t"                                                                              \
    "bne 2b\n\t"                                                                                   \
    "b 9f\n\t"
#define MCT_STORE_PANEL_BY(label, shift)                                                           \
    MCT_STORE_PANEL(label, MCT_REQUANTIZE_BY(shift, "r12", "lr"))

/* A word of weights at r2 to its place on the stack; 16 bytes. */
#define MCT_UNPACK(place)                                                                          \
    "ldr.w r4, [r2], #4\n\t"                                                                       \
    "sxtb16 r5, r4, ror #8\n\t"                                                                    \
    "sxtb16 r4, r4\n\t"                                                                            \
    "strd r4, r5, [sp, #" place "]\n\t"
/* 11 instructions of 4 bytes. */
#define MCT_UNPACKED_QUAD(place, s4, s5, s6, s7)                                                   \
    "ldrd r11, lr, [sp, #" place "]\n\t"                                                           \
    "ldm.w r0!, {r8, r9, r10, r12}\n\t"                                                            \
    "smlad r4, r8, r11, " s4 "\n\t"                                                                \
    "smlad r5, r9, r11, " s5 "\n\t"                                                                \
    "smlad r6, r10, r11, " s6 "\n\t"                                                               \
    "smlad r7, r12, r11, " s7 "\n\t"                                                               \
    "ldm.w r0!, {r8, r9, r10, r12}\n\t"                                                            \
    "smlad r4, r8, lr, r4\n\t"                                                                     \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlad r6, r10, lr, r6\n\t"                                                                    \
    "smlad r7, r12, lr, r7\n\t"
#define MCT_NEXT_QUAD(place) MCT_UNPACKED_QUAD(place, "r4", "r5", "r6", "r7")
/* Behind the first one; the last ones are gone through. */
#define MCT_ELEVEN(MCT_DO)                                                                         \
    MCT_DO("60") MCT_DO("68") MCT_DO("76") MCT_DO("84") MCT_DO("92") MCT_DO("100") MCT_DO("108")   \
    MCT_DO("116") MCT_DO("124") MCT_DO("132") MCT_DO("140")

/* r0 panel, r1 stride, r2 y, r3 start, r4 … r7 sums. On the stack 0 mult_q31, half, bits, 12 the
 * panels' end, 16 where to enter the quads, 20 what stores, 24 where to enter what unpacks, 28 the first panel, 32
 * y of the channel, 36 the channels' end, 40 row, 44 w, 48 channel, 52 the row's words, unpacked. */
MCT_NAKED void mct_tile_panels_run(const mct_tile_panels *t __attribute__((unused))) {
    __asm__ volatile(
        MCT_PUSH
        "sub sp, sp, #148\n\t"
        "ldm r0, {r0, r1, r2, r3, r4, r5, r6, r7, r8}\n\t"
        "str r5, [sp, #12]\n\t"
        "strd r4, r0, [sp, #28]\n\t"
        "strd r3, r2, [sp, #36]\n\t"
        "strd r7, r8, [sp, #44]\n\t"
        "subs r6, r6, #1\n\t"
        "adr r4, 4f\n\t"
        "mov r5, #44\n\t"
        "mls r4, r6, r5, r4\n\t"
        "orr r4, r4, #1\n\t"
        "str r4, [sp, #16]\n\t"
        "adr r4, 3f\n\t"
        "sub r4, r4, r6, lsl #4\n\t"
        "orr r4, r4, #1\n\t"
        "str r4, [sp, #24]\n\t"
        "1:\n\t"
        "ldrd r2, r12, [sp, #44]\n\t"
        "ldm r12!, {r3, r8, r9, r10}\n\t"
        "strd r8, r9, [sp]\n\t"
        "str r10, [sp, #8]\n\t"
        "ldr r11, [sp, #40]\n\t"
        "add r11, r2, r11\n\t"
        "strd r11, r12, [sp, #44]\n\t"
        MCT_CHOOSE_STORE("r10", "10f", "r11")
        "str r10, [sp, #20]\n\t"
        MCT_UNPACK("52")
        "ldr pc, [sp, #24]\n\t"
        ".balign 4\n\t"
        MCT_ELEVEN(MCT_UNPACK)
        "3:\n\t"
        "ldrd r0, r2, [sp, #28]\n\t"
        "adds r4, r2, #1\n\t"
        "str r4, [sp, #32]\n\t"
        "2:\n\t"
        MCT_UNPACKED_QUAD("52", "r3", "r3", "r3", "r3")
        "ldr pc, [sp, #16]\n\t"
        ".balign 4\n\t"
        MCT_ELEVEN(MCT_NEXT_QUAD)
        "4:\n\t"
        "ldr pc, [sp, #20]\n\t"
        ".balign 4\n\t"
        "10:\n\t"
        ".word 11f - 10b + 1\n\t"
        ".word 12f - 10b + 1\n\t"
        ".word 13f - 10b + 1\n\t"
        ".word 14f - 10b + 1\n\t"
        ".word 15f - 10b + 1\n\t"
        ".word 16f - 10b + 1\n\t"
        MCT_STORE_PANEL_BY("11", "5")
        MCT_STORE_PANEL_BY("12", "6")
        MCT_STORE_PANEL_BY("13", "7")
        MCT_STORE_PANEL_BY("14", "8")
        MCT_STORE_PANEL_BY("15", "9")
        MCT_STORE_PANEL("16", MCT_REQUANTIZE("r4", "r5") MCT_REQUANTIZE("r6", "r7"))
        "9:\n\t"
        "ldr r4, [sp, #36]\n\t"
        "ldr r5, [sp, #48]\n\t"
        "cmp r4, r5\n\t"
        "bne 1b\n\t"
        "add sp, sp, #148\n\t"
        MCT_POP);
}

/* r0 panel, r1 … r4 columns, r5 plus; on the stack the end of the first column, its bytes, next, panels. */
MCT_NAKED void mct_tile_panel_run(const mct_tile_panel *t __attribute__((unused))) {
    __asm__ volatile(
        MCT_PUSH
        "ldm r0, {r1, r2, r3, r4, r5, r6, r7}\n\t"
        "ldrd r8, r9, [r0, #28]\n\t"
        "lsls r6, r6, #2\n\t"
        "add r10, r1, r6\n\t"
        "sub sp, sp, #16\n\t"
        "strd r10, r6, [sp]\n\t"
        "strd r8, r9, [sp, #8]\n\t"
        "mov r0, r7\n\t"
        "1:\n\t"
        "ldr r8, [r1], #4\n\t"
        "ldr r9, [r2], #4\n\t"
        "ldr r10, [r3], #4\n\t"
        "ldr r11, [r4], #4\n\t"
        "sxtab16 r6, r5, r8, ror #8\n\t"
        "sxtab16 r7, r5, r9, ror #8\n\t"
        "sxtab16 r12, r5, r10, ror #8\n\t"
        "sxtab16 lr, r5, r11, ror #8\n\t"
        "sxtab16 r8, r5, r8\n\t"
        "sxtab16 r9, r5, r9\n\t"
        "sxtab16 r10, r5, r10\n\t"
        "sxtab16 r11, r5, r11\n\t"
        "sadd16 r6, r6, r6\n\t"
        "sadd16 r7, r7, r7\n\t"
        "sadd16 r12, r12, r12\n\t"
        "sadd16 lr, lr, lr\n\t"
        "sadd16 r8, r8, r8\n\t"
        "sadd16 r9, r9, r9\n\t"
        "sadd16 r10, r10, r10\n\t"
        "sadd16 r11, r11, r11\n\t"
        "stm r0!, {r8, r9, r10, r11}\n\t"
        "stm r0!, {r6, r7, r12, lr}\n\t"
        "ldr r6, [sp]\n\t"
        "cmp r1, r6\n\t"
        "bne 1b\n\t"
        "ldrd r8, r9, [sp, #8]\n\t"
        "subs r9, r9, #1\n\t"
        "beq 2f\n\t"
        "str r9, [sp, #12]\n\t"
        "add r1, r1, r8\n\t"
        "add r2, r2, r8\n\t"
        "add r3, r3, r8\n\t"
        "add r4, r4, r8\n\t"
        "ldr r6, [sp, #4]\n\t"
        "add r6, r6, r1\n\t"
        "str r6, [sp]\n\t"
        "b 1b\n\t"
        "2:\n\t"
        "add sp, sp, #16\n\t"
        MCT_POP);
}

/* Two rows to four words of a panel. */
#define MCT_TWO_ROWS                                                                               \
    "ldr r4, [r0]\n\t"                                                                             \
    "ldr r6, [r0, r1, lsl #1]\n\t"                                                                 \
    "add r0, r0, r1\n\t"                                                                           \
    "sxtab16 r8, r2, r4\n\t"                                                                       \
    "sxtab16 r9, r2, r6\n\t"                                                                       \
    "sxtab16 r4, r2, r4, ror #8\n\t"                                                               \
    "sxtab16 r6, r2, r6, ror #8\n\t"                                                               \
    "pkhbt r10, r8, r9, lsl #16\n\t"                                                               \
    "pkhtb r12, r9, r8, asr #16\n\t"                                                               \
    "pkhbt r11, r4, r6, lsl #16\n\t"                                                               \
    "pkhtb lr, r6, r4, asr #16\n\t"                                                                \
    "stm r3!, {r10, r11, r12, lr}\n\t"

/* r0 rows, r1 stride, r2 plus, r3 panel, r5 quads. */
MCT_NAKED void mct_tile_rows_run(const mct_tile_rows *t __attribute__((unused))) {
    __asm__ volatile(
        MCT_PUSH
        "ldr r5, [r0, #16]\n\t"
        "ldm r0, {r0, r1, r2, r3}\n\t"
        "1:\n\t"
        MCT_TWO_ROWS
        MCT_TWO_ROWS
        "add r0, r0, r1, lsl #1\n\t"
        "subs r5, r5, #1\n\t"
        "bne 1b\n\t"
        MCT_POP);
}

#define MCT_ADD_TO                                                                                 \
    "ldm r0, {r4, r5, r6, r7}\n\t"
#define MCT_START                                                                                  \
    "ldr.w lr, [r2], #4\n\t"                                                                       \
    "ldm.w r1!, {r8, r9, r10, r12}\n\t"                                                            \
    "sxtb16 r11, lr\n\t"                                                                           \
    "sxtb16 lr, lr, ror #8\n\t"                                                                    \
    "smuad r4, r8, r11\n\t"                                                                        \
    "smuad r5, r9, r11\n\t"                                                                        \
    "smuad r6, r10, r11\n\t"                                                                       \
    "smuad r7, r12, r11\n\t"                                                                       \
    "ldm.w r1!, {r8, r9, r10, r12}\n\t"                                                            \
    "smlad r4, r8, lr, r4\n\t"                                                                     \
    "smlad r5, r9, lr, r5\n\t"                                                                     \
    "smlad r6, r10, lr, r6\n\t"                                                                    \
    "smlad r7, r12, lr, r7\n\t"

/* r0 sums, r1 panel, r2 stream, r3 quads by four; on the stack panel, quads by four, stride, count, where
 * to enter. */
#define MCT_POSITIONS(name, MCT_WHERE, MCT_BEGIN)                                                             \
    MCT_NAKED void name(const mct_tile_positions *t __attribute__((unused))) {                     \
        __asm__ volatile(                                                                          \
            MCT_PUSH                                                                               \
            "ldm r0, {r5, r6, r8, r9, r10, r11}\n\t"                                               \
            MCT_WHERE                                                                              \
            "push {r7}\n\t"                                                                        \
            "push {r5, r6, r8, r9}\n\t"                                                            \
            "mov r2, r10\n\t"                                                                      \
            "mov r0, r11\n\t"                                                                      \
            "1:\n\t"                                                                               \
            "ldrd r1, r3, [sp]\n\t"                                                                \
            MCT_BEGIN                                                                              \
            "ldr pc, [sp, #16]\n\t"                                                                \
            MCT_QUADS                                                                              \
            "stm r0!, {r4, r5, r6, r7}\n\t"                                                        \
            "ldrd r8, r9, [sp, #8]\n\t"                                                            \
            "add r2, r2, r8\n\t"                                                                   \
            "subs r9, r9, #1\n\t"                                                                  \
            "str r9, [sp, #12]\n\t"                                                                \
            "bne 1b\n\t"                                                                           \
            "add sp, sp, #20\n\t"                                                                  \
            MCT_POP);                                                                              \
    }

MCT_POSITIONS(mct_tile_positions_add, MCT_ENTER, MCT_ADD_TO)
MCT_POSITIONS(mct_tile_positions_start, MCT_ENTER_REST, MCT_START)

/* clang-format on */

#else

void mct_tile_channels_run(const mct_tile_channels *t) {
    const int8_t *w = t->w;
    int8_t *y = t->y;
    for (const mct_dsp_channel *c = t->channel; c < t->end; c++) {
        const mct_sums4 start = {{c->start, c->start, c->start, c->start}};
        const mct_sums4 sums = mct_dot4(t->panel, w, t->quads, start);
        mct_dsp_store_plain(c, &sums, t->stride, y++);
        w += 4 * t->quads + t->skip;
    }
}

void mct_tile_panels_run(const mct_tile_panels *t) {
    const int8_t *w = t->w;
    int8_t *y = t->y;
    for (const mct_dsp_channel *c = t->channel; c < t->end; c++, y++, w += t->row) {
        const mct_sums4 start = {{c->start, c->start, c->start, c->start}};
        int8_t *at = y;
        for (const uint32_t *p = t->panel; p < t->panel_end; p += 8 * t->quads) {
            const mct_sums4 sums = mct_dot4(p, w, t->quads, start);
            mct_dsp_store_plain(c, &sums, t->stride, at);
            at += 4 * t->stride;
        }
    }
}

void mct_tile_panel_run(const mct_tile_panel *t) {
    for (int32_t panel = 0; panel < t->panels; panel++) {
        const int32_t at = panel * (4 * t->words + t->next);
        uint32_t *to = t->panel + 8 * t->words * panel;
        for (int32_t n = 0; n < 4 * t->words; n++) {
            const uint32_t word = mct_load32(t->columns[n % 4] + at + n / 4 * 4);
            const uint32_t even = mct_add_even_bytes(t->plus, word);
            const uint32_t odd = mct_add_odd_bytes(t->plus, word);
            to[n / 4 * 8 + n % 4] = mct_add_pairs(even, even);
            to[n / 4 * 8 + n % 4 + 4] = mct_add_pairs(odd, odd);
        }
    }
}

/* What mct_tile_channels_noted returns, one channel on. */
static uint32_t mct_note_plain(const mct_dsp_channel *c, const mct_sums4 *sums, int32_t stride,
                               int8_t *y, uint32_t noted) {
    noted = noted >> 1 & 0x7F7F7F7Fu;
    for (int32_t l = 0; l < 4; l++) {
        const int32_t value = mct_dsp_scaled(c, sums->lane[l]) >> 1;
        y[l * stride] = (int8_t)mct_saturate8(value);
        noted |= value == mct_saturate8(value) ? UINT32_C(0x80) << (8 * l) : 0;
    }
    return noted;
}

void mct_tile_rows_run(const mct_tile_rows *t) {
    const int32_t plus = mct_low(t->plus);
    for (int32_t n = 0; n < 8 * t->quads; n++) {
        const int8_t *from = t->from + (n / 8 * 4 + n / 4 % 2) * t->stride + n % 4;
        t->panel[n] = mct_pair(from[0] + plus, from[2 * t->stride] + plus);
    }
}

uint32_t mct_tile_channels_noted(const mct_tile_channels *t) {
    const int8_t *w = t->w;
    int8_t *y = t->y;
    uint32_t noted = 0;
    for (const mct_dsp_channel *c = t->channel; c < t->end; c++) {
        const mct_sums4 start = {{c->start, c->start, c->start, c->start}};
        const mct_sums4 sums = mct_dot4(t->panel, w, t->quads, start);
        noted = mct_note_plain(c, &sums, t->stride, y++, noted);
        w += 4 * t->quads + t->skip;
    }
    return noted;
}

void mct_tile_sums_run(const mct_tile_sums *t) {
    const int32_t count = (int32_t)(t->end - t->channel);
    for (int32_t i = 0; i < count; i++) {
        mct_sums4 sums;
        memcpy(sums.lane, t->sums + 4 * i, sizeof sums.lane);
        mct_dsp_store_plain(t->channel + i, &sums, t->stride, t->y + i);
    }
}

uint32_t mct_tile_sums_noted(const mct_tile_sums *t) {
    const int32_t count = (int32_t)(t->end - t->channel);
    uint32_t noted = 0;
    for (int32_t i = 0; i < count; i++) {
        mct_sums4 sums;
        memcpy(sums.lane, t->sums + 4 * i, sizeof sums.lane);
        noted = mct_note_plain(t->channel + i, &sums, t->stride, t->y + i, noted);
    }
    return noted;
}

void mct_tile_positions_add(const mct_tile_positions *t) {
    const int8_t *stream = t->stream;
    for (int32_t i = 0; i < t->count; i++) {
        mct_sums4 sums;
        memcpy(sums.lane, t->sums + 4 * i, sizeof sums.lane);
        sums = mct_dot4(t->panel, stream, t->quads, sums);
        memcpy(t->sums + 4 * i, sums.lane, sizeof sums.lane);
        stream += 4 * t->quads + t->stride;
    }
}

void mct_tile_positions_start(const mct_tile_positions *t) {
    memset(t->sums, 0, (size_t)t->count * sizeof(mct_sums4));
    mct_tile_positions_add(t);
}

#endif
