/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a ring of latents remembers, and which of them a step replays: reservoir sampling
 * (Vitter's algorithm R) with a hash of counts. mcutrain/simulation/replay.py is the same. */
#ifndef MCT_RESERVOIR_H
#define MCT_RESERVOIR_H

#include "mct_fixedpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A random number in 0 … bound - 1 for each counter. */
static inline uint32_t mct_draw(uint32_t counter, uint32_t key, uint32_t bound) {
    const uint32_t mixed = mct_hash32(counter * UINT32_C(0x9E3779B9) + key);
    return (uint32_t)(((uint64_t)mixed * bound) >> 32);
}

/* Where the sample goes before which `seen` were offered: a slot, or nowhere if >= remember, as all
 * that come after UINT32_MAX. */
static inline uint32_t mct_offer_slot(uint32_t seen, uint32_t remember) {
    if (seen < remember || seen == UINT32_MAX) {
        return seen;
    }
    return mct_draw(seen, UINT32_C(0xC2B2AE35), seen + 1u);
}

/* How many were offered after one more. The count ends at UINT32_MAX: 0 would empty the ring. */
static inline uint32_t mct_offered(uint32_t seen) {
    return seen < UINT32_MAX ? seen + 1u : seen;
}

/* The slot that the training step at a position replays. seen > 0: samples that were offered. */
static inline uint32_t mct_replay_slot(uint32_t position, uint32_t seen, uint32_t remember) {
    return mct_draw(position, UINT32_C(0x27D4EB2F), seen < remember ? seen : remember);
}

#ifdef __cplusplus
}
#endif

#endif
