/* SPDX-License-Identifier: Apache-2.0 */
/* Policy feedback: what samples taught corrects which front of a proxy cascade is taken. An offset,
 * part of the state, moves the choice to dearer or cheaper fronts.
 * mcutrain/features/policy_feedback/policy.py is the same in Python, bit for bit. */
#ifndef MCT_DRIFT_H
#define MCT_DRIFT_H

#include "mct_gate.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_DRIFT_EVERY 16u
#define MCT_DRIFT_STEPS 4 /* of the offset in one unit of a score */
#define MCT_DRIFT_MOST (255 * MCT_DRIFT_STEPS)

/* A part of the trained state. 0 at the beginning: the policy's own choice. */
typedef struct {
    int32_t mean_q19; /* moving average of losses with the whole front, see mct_drift_follow */
    int32_t offset;   /* in steps, -MCT_DRIFT_MOST … MCT_DRIFT_MOST */
} mct_drift;

static inline int32_t mct_drift_offset(const mct_drift *drift) {
    return mct_clamp(drift->offset, -MCT_DRIFT_MOST, MCT_DRIFT_MOST);
}

/* The level i of the largest score + i * offset; of equal ones the lowest, which is the dearer front.
 * It never falls as the offset rises. scores: [levels], 1 <= levels <= 16. */
static inline uint32_t mct_drift_level(const mct_drift *drift, const int8_t *scores,
                                       uint32_t levels) {
    const int32_t offset = mct_drift_offset(drift);
    uint32_t best = 0;
    int32_t most = scores[0] * MCT_DRIFT_STEPS;
    for (uint32_t i = 1; i < levels; i++) {
        const int32_t score = scores[i] * MCT_DRIFT_STEPS + (int32_t)i * offset;
        if (score > most) {
            best = i;
            most = score;
        }
    }
    return best;
}

/* Whether the next sample is a probe: a step learns from it by way of the whole front, whatever level
 * it would have taken. samples: of each front, [levels]. */
static inline uint32_t mct_drift_probes(const uint32_t *samples, uint32_t levels) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < levels; i++) {
        sum += samples[i];
    }
    return sum % MCT_DRIFT_EVERY == 0;
}

/* After a step. wanted: the level of mct_drift_level, which the step took unless it was a probe.
 *
 * The average is of the probes that wanted another front: samples as those that took it. A loss above
 * 3/4 of it, as nearly half of them have where fronts are equally good, lowers the offset by a step, any
 * other raises it. A probe takes it a step towards 0. */
static inline void mct_drift_follow(mct_drift *drift, uint32_t wanted, uint32_t is_probe,
                                    int32_t loss_q16) {
    const int32_t mean = mct_max(drift->mean_q19, 0), loss = mct_gate_held(loss_q16);
    const int32_t offset = mct_drift_offset(drift);
    int32_t step = 0;
    if (is_probe) {
        step = (offset < 0) - (offset > 0);
        if (wanted > 0) {
            drift->mean_q19 = mean == 0 ? loss : mct_gate_followed(mean, loss);
        }
    } else if (wanted > 0 && mean > 0) {
        step = (int64_t)loss * 4 > (int64_t)mean * 3 ? -1 : 1;
    }
    drift->offset = mct_clamp(offset + step, -MCT_DRIFT_MOST, MCT_DRIFT_MOST);
}

#ifdef __cplusplus
}
#endif

#endif
