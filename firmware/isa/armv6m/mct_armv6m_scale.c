/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_scale.h"

mct_tiled_output mct_armv6m_output_of(const mct_requantize *q, int32_t elements, int8_t *y,
                                      uint8_t *mask) {
    for (int32_t i = 0; mask != NULL && i < elements; i += 8) {
        mask[i >> 3] = (uint8_t)(elements - i < 8 ? (1 << (elements - i)) - 1 : 255);
    }
    return (mct_tiled_output){q, y, mask, q->low, (uint32_t)(q->high - q->low)};
}

static inline void mct_armv6m_clear(const mct_armv6m_line *line) {
    const int32_t i = (int32_t)(line->y - line->first);
    if (line->mask != NULL) {
        line->mask[i >> 3] = (uint8_t)(line->mask[i >> 3] & ~(1u << (i & 7)));
    }
}

/* The next element, of channel c, by the long way. sum: what it is */
static MCT_APART void mct_armv6m_put_plain(mct_armv6m_line *line, const mct_requantize *q,
                                           int32_t sum, int32_t c) {
    const int32_t value = mct_tiled_scale_plain(q, sum, c);
    const int32_t clamped = mct_clamp(value, q->low, q->high);
    *line->y = (int8_t)clamped;
    if (value != clamped) {
        mct_armv6m_clear(line);
    }
    line->y += line->y_step;
}

void mct_armv6m_store_sums(const mct_tiled_output *out, const int32_t *sums, int32_t count,
                           const mct_armv6m_scale *scale, int32_t c, int32_t channel_step,
                           int32_t i, int32_t step) {
    mct_armv6m_line line;
    line.sums = sums;
    line.scale = scale;
    line.y = out->y + i;
    line.span = out->span;
    line.low = out->low;
    line.end = sums + count;
    line.scale_step = (channel_step - 1) * (int32_t)sizeof *scale;
    line.y_step = step;
    line.first = out->y;
    line.mask = out->mask;
    while (line.sums != line.end && mct_armv6m_scale_line(&line) != 0) {
        const int32_t n = (int32_t)(line.sums - sums) - 1, at = channel_step != 0 ? n : 0;
        const uint32_t sum = (uint32_t)sums[n] - (scale[at].limit >> 1);
        mct_armv6m_put_plain(&line, out->q, (int32_t)sum, c + at);
    }
}

#if MCT_ARMV6M_ASSEMBLY

/* 17 instructions for an element that neither clamps nor is in doubt. The offsets are those of
 * mct_armv6m_line. */
__attribute__((naked, noinline)) int32_t
mct_armv6m_scale_line(MCT_IN_REGISTER mct_armv6m_line *line) {
    __asm__ volatile(".syntax unified\n\t"
                     "push {r4, r5, r6, r7, lr}\n\t"
                     "mov r4, r8\n\t"
                     "mov r5, r9\n\t"
                     "mov r6, r10\n\t"
                     "mov r7, r11\n\t"
                     "push {r0, r4, r5, r6, r7}\n\t"
                     "adds r0, #12\n\t"
                     "ldmia r0!, {r1, r2, r4, r5, r6}\n\t"
                     "mov r8, r1\n\t"  /* span */
                     "mov r9, r2\n\t"  /* low */
                     "mov r11, r4\n\t" /* end */
                     "mov r12, r5\n\t" /* from one scale to the next, less its size */
                     "mov lr, r6\n\t"  /* from one element to the next */
                     "ldmia r0!, {r2, r3}\n\t"
                     "push {r2, r3}\n\t" /* first, mask */
                     "adr r2, 7f\n\t"
                     "cmp r3, #0\n\t"
                     "bne 10f\n\t"
                     "adr r2, 8f\n\t"
                     "10:\n\t"
                     "mov r10, r2\n\t" /* where an element that clamps goes on */
                     "subs r0, #40\n\t"
                     "ldr r7, [r0, #8]\n\t"
                     "ldr r1, [r0, #4]\n\t"
                     "ldr r0, [r0]\n\t"
                     "1:\n\t"
                     "ldmia r1!, {r2, r3, r4, r5}\n\t"
                     "add r1, r12\n\t"
                     "ldmia r0!, {r6}\n\t"
                     "cmp r6, r2\n\t"
                     "bhs 3f\n\t"
                     "muls r3, r6, r3\n\t"
                     "adds r3, r3, r4\n\t"
                     "lsls r4, r3, #10\n\t" /* the fraction */
                     "lsrs r3, r3, #22\n\t" /* the whole */
                     "cmp r3, r8\n\t"
                     "bhi 4f\n\t"
                     "cmp r4, r5\n\t"
                     "blo 5f\n\t"
                     "add r3, r9\n\t"
                     "2:\n\t"
                     "strb r3, [r7]\n\t"
                     "add r7, lr\n\t"
                     "cmp r0, r11\n\t"
                     "bne 1b\n\t"
                     "movs r6, #0\n\t"
                     "b 6f\n\t"
                     "3:\n\t"
                     "cmp r2, #0\n\t"
                     "beq 5f\n\t"
                     "b 9f\n\t"
                     "4:\n\t"
                     "cmp r4, r5\n\t"
                     "bhs 9f\n\t"
                     "subs r3, #1\n\t" /* in doubt: it may be one less */
                     "cmp r3, r8\n\t"
                     "beq 5f\n\t"
                     "9:\n\t"
                     "lsrs r2, r2, #1\n\t"
                     "mov r3, r9\n\t"
                     "cmp r6, r2\n\t"
                     "blt 11f\n\t"
                     "add r3, r8\n\t"
                     "11:\n\t"
                     "mov pc, r10\n\t"
                     ".p2align 2\n\t"
                     "7:\n\t" /* clears the bit of the mask */
                     "ldr r2, [sp]\n\t"
                     "subs r2, r7, r2\n\t"
                     "ldr r4, [sp, #4]\n\t"
                     "lsrs r5, r2, #3\n\t"
                     "adds r4, r4, r5\n\t"
                     "movs r5, #7\n\t"
                     "ands r2, r5\n\t"
                     "movs r5, #1\n\t"
                     "lsls r5, r2\n\t"
                     "ldrb r2, [r4]\n\t"
                     "bics r2, r5\n\t"
                     "strb r2, [r4]\n\t"
                     "b 2b\n\t"
                     ".p2align 2\n\t"
                     "8:\n\t"
                     "b 2b\n\t"
                     "5:\n\t"
                     "movs r6, #1\n\t"
                     "6:\n\t"
                     "add sp, #8\n\t"
                     "pop {r2, r4, r5}\n\t"
                     "mov r8, r4\n\t"
                     "mov r9, r5\n\t"
                     "stmia r2!, {r0, r1}\n\t"
                     "str r7, [r2]\n\t"
                     "movs r0, r6\n\t"
                     "pop {r4, r5}\n\t"
                     "mov r10, r4\n\t"
                     "mov r11, r5\n\t"
                     "pop {r4, r5, r6, r7, pc}\n\t");
}

#else

/* The same for an element. Whether it must go the long way. */
static int mct_armv6m_scale_one(const mct_armv6m_line *line, const mct_armv6m_scale *scale,
                                int32_t sum) {
    const uint32_t value = scale->start + (uint32_t)sum * scale->factor;
    const uint32_t whole = value >> MCT_ARMV6M_BITS;
    const int is_far = (uint32_t)sum >= scale->limit;
    const int is_beyond = is_far || whole > line->span;
    const int in_doubt = !is_far && value << (32 - MCT_ARMV6M_BITS) < scale->doubt;
    if (is_far ? scale->limit == 0 : in_doubt && (!is_beyond || whole - 1 == line->span)) {
        return 1;
    }
    if (is_beyond) {
        const int is_low = sum < (int32_t)(scale->limit >> 1);
        *line->y = (int8_t)(line->low + (is_low ? 0 : (int32_t)line->span));
        mct_armv6m_clear(line);
    } else {
        *line->y = (int8_t)(line->low + (int32_t)whole);
    }
    return 0;
}

int32_t mct_armv6m_scale_line(mct_armv6m_line *line) {
    do {
        const mct_armv6m_scale *scale = line->scale;
        const int32_t sum = *line->sums++;
        line->scale = (const mct_armv6m_scale *)((const char *)(scale + 1) + line->scale_step);
        if (mct_armv6m_scale_one(line, scale, sum)) {
            return 1;
        }
        line->y += line->y_step;
    } while (line->sums != line->end);
    return 0;
}

#endif
