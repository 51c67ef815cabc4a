/* SPDX-License-Identifier: Apache-2.0 */
/* What the faster bodies for Cortex-M4, M7 and M33 take from the DSP extension: the only place that
 * knows its instructions. Without the extension the same functions are plain C: slow, same bits.
 *
 * A pair is two int16 in a word, the low half first. */
#ifndef MCT_DSP_H
#define MCT_DSP_H

#include <stdint.h>
#include <string.h>

/* Four bytes from any address. */
static inline uint32_t mct_load32(const void *from) {
    uint32_t word;
    __builtin_memcpy(&word, from, sizeof word); /* inlined even in a freestanding build */
    return word;
}

/* The first `count` of them, 1 to 4; the others are 0. */
static inline uint32_t mct_load_part(const int8_t *from, int32_t count) {
    uint32_t word = 0;
    for (int32_t i = 0; i < count; i++) {
        word |= (uint32_t)(uint8_t)from[i] << (8 * i);
    }
    return word;
}

/* In a loop that clears a few words: keeps compilers from calling memset for them. */
static inline void mct_keep_loop(void) {
    __asm__ volatile("");
}

static inline int32_t mct_low(uint32_t pair) {
    return (int16_t)(uint16_t)pair;
}
static inline int32_t mct_high(uint32_t pair) {
    return (int32_t)pair >> 16;
}
static inline uint32_t mct_pair(int32_t low, int32_t high) {
    return ((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16;
}
/* Sums of four lanes. */
typedef struct {
    int32_t lane[4];
} mct_sums4;
typedef struct {
    int32_t first, second;
} mct_sums2;

#if defined(__ARM_FEATURE_DSP) && !defined(MCT_DSP_EMULATED)
#include "mct_dsp_arm.h"
#else
#include "mct_dsp_emulated.h"
#endif

#endif
