#include "mct_dsp_tiles.h"

#include <stddef.h>

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)

#define MCT_NAKED __attribute__((naked, noinline))

_Static_assert(sizeof(mct_dsp_channel) == 16 && offsetof(mct_dsp_channel, mult_q31) == 4, "order");
_Static_assert(offsetof(mct_tile_channels, panel) == 16, "order");

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

/* One sum to int8 in lr; sets its bit of r11 if that did not saturate. */
#define MCT_REQUANTIZE_NOTED(a, bit)                                                               \
    "smmlar lr, " a ", r8, r9\n\t"                                                                 \
    "add " a ", lr, " a ", asr #31\n\t"                                                            \
    "asr " a ", " a ", r10\n\t"                                                                    \
    "asr " a ", " a ", #1\n\t"                                                                     \
    "ssat lr, #8, " a "\n\t"                                                                       \
    "cmp lr, " a "\n\t"                                                                            \
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
    MCT_REQUANTIZE_NOTED( "r4", "0x80")                                                            \
    "strb lr, [r1]\n\t"                                                                            \
    "add r4, r1, r3\n\t"                                                                           \
    MCT_REQUANTIZE_NOTED( "r5", "0x8000")                                                          \
    "strb lr, [r4]\n\t"                                                                            \
    MCT_REQUANTIZE_NOTED("r6", "0x800000")                                                         \
    "strb lr, [r1, r3, lsl #1]\n\t"                                                                \
    MCT_REQUANTIZE_NOTED("r7", "0x80000000")                                                       \
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

/* r0 panel, r1 … r4 columns, r5 plus; on the stack the end of the first column. */
#define MCT_PANEL(name)                                                                            \
    MCT_NAKED void name(const mct_tile_panel *t __attribute__((unused))) {                         \
        __asm__ volatile(                                                                          \
            MCT_PUSH                                                                               \
            "ldm r0, {r1, r2, r3, r4, r5, r6, r7}\n\t"                                             \
            "add r6, r1, r6, lsl #2\n\t"                                                           \
            "push {r6}\n\t"                                                                        \
            "mov r0, r7\n\t"                                                                       \
            "1:\n\t"                                                                               \
            "ldr r8, [r1], #4\n\t"                                                                 \
            "ldr r9, [r2], #4\n\t"                                                                 \
            "ldr r10, [r3], #4\n\t"                                                                \
            "ldr r11, [r4], #4\n\t"                                                                \
            "sxtab16 r6, r5, r8, ror #8\n\t"                                                       \
            "sxtab16 r7, r5, r9, ror #8\n\t"                                                       \
            "sxtab16 r12, r5, r10, ror #8\n\t"                                                     \
            "sxtab16 lr, r5, r11, ror #8\n\t"                                                      \
            "sxtab16 r8, r5, r8\n\t"                                                               \
            "sxtab16 r9, r5, r9\n\t"                                                               \
            "sxtab16 r10, r5, r10\n\t"                                                             \
            "sxtab16 r11, r5, r11\n\t"                                                             \
            "sadd16 r6, r6, r6\n\t"                                                                \
            "sadd16 r7, r7, r7\n\t"                                                                \
            "sadd16 r12, r12, r12\n\t"                                                             \
            "sadd16 lr, lr, lr\n\t"                                                                \
            "sadd16 r8, r8, r8\n\t"                                                                \
            "sadd16 r9, r9, r9\n\t"                                                                \
            "sadd16 r10, r10, r10\n\t"                                                             \
            "sadd16 r11, r11, r11\n\t"                                                             \
            "stm r0!, {r8, r9, r10, r11}\n\t"                                                      \
            "stm r0!, {r6, r7, r12, lr}\n\t"                                                       \
            "ldr r6, [sp]\n\t"                                                                     \
            "cmp r1, r6\n\t"                                                                       \
            "bne 1b\n\t"                                                                           \
            "add sp, sp, #4\n\t"                                                                   \
            MCT_POP);                                                                              \
    }

MCT_PANEL(mct_tile_panel_run)

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

void mct_tile_panel_run(const mct_tile_panel *t) {
    for (int32_t n = 0; n < 4 * t->words; n++) {
        const uint32_t word = mct_load32(t->columns[n % 4] + n / 4 * 4);
        const uint32_t even = mct_add_even_bytes(t->plus, word);
        const uint32_t odd = mct_add_odd_bytes(t->plus, word);
        t->panel[n / 4 * 8 + n % 4] = mct_add_pairs(even, even);
        t->panel[n / 4 * 8 + n % 4 + 4] = mct_add_pairs(odd, odd);
    }
}

uint32_t mct_tile_channels_noted(const mct_tile_channels *t) {
    const int8_t *w = t->w;
    int8_t *y = t->y;
    uint32_t noted = 0;
    for (const mct_dsp_channel *c = t->channel; c < t->end; c++, y++) {
        const mct_sums4 start = {{c->start, c->start, c->start, c->start}};
        const mct_sums4 sums = mct_dot4(t->panel, w, t->quads, start);
        noted = noted >> 1 & 0x7F7F7F7Fu;
        for (int32_t l = 0; l < 4; l++) {
            const int32_t value = mct_dsp_scaled(c, sums.lane[l]) >> 1;
            y[l * t->stride] = (int8_t)mct_saturate8(value);
            noted |= value == mct_saturate8(value) ? UINT32_C(0x80) << (8 * l) : 0;
        }
        w += 4 * t->quads + t->skip;
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
