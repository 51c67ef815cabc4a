/* SPDX-License-Identifier: Apache-2.0 */
/* A proxy cascade: a policy scores each front, and the sample takes the one with the highest score.
 * Level 0 is the network's own front. mcutrain/memplan/ladder.py says what makes one. */
#ifndef MCT_LADDER_H
#define MCT_LADDER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The level of the largest score; of equal ones the lowest, which is the dearer front.
 *
 * scores: [levels], levels >= 1. */
static inline uint32_t mct_ladder_level(const int8_t *scores, uint32_t levels) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < levels; i++) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    return best;
}

#ifdef __cplusplus
}
#endif

#endif
