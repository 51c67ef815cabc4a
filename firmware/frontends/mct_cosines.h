/* SPDX-License-Identifier: Apache-2.0 */
/* Cosines of the table, and bits of a number: what front ends share in their inner loops. */
#ifndef MCT_COSINES_H
#define MCT_COSINES_H

#include <stdint.h>

#include "mct_audio_tables.h"

/* How many bits x takes; 0 of 0. */
static inline uint32_t mct_bits_of(uint32_t x) {
    uint32_t bits = 0;
    for (uint32_t step = 16; step > 0; step >>= 1) {
        if (x >> step != 0) {
            bits += step;
            x >>= step;
        }
    }
    return bits + x;
}

/* 32767 cos(2 pi turn / 512), turn in 0 ... 511. */
static inline int32_t mct_cosine_of(uint32_t turn) {
    turn = turn > 256 ? 512 - turn : turn;
    return turn <= 128 ? mct_audio_cosines[turn] : -mct_audio_cosines[256 - turn];
}

#endif
