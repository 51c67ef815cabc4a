/* SPDX-License-Identifier: Apache-2.0 */
/* When it is decided anew which tensors are trained. mcutrain/simulation/elastic.py is the same.
 *
 * A period of `every` steps begins with two windows in which all are trained. The states before the
 * first, between both and after the second tell which tensors are worth training for the rest. */
#ifndef MCT_SELECTION_H
#define MCT_SELECTION_H

#include <stdint.h>

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_SELECTION_LOOKS 20u /* each window takes one in so many steps */

/* The share of a whole step: the largest that there is. */
#define MCT_SELECTION_WHOLE_Q16 65536u

typedef enum {
    MCT_SELECTION_STAYS,    /* nothing is due */
    MCT_SELECTION_BEGINS,   /* a period: select all, and keep the state */
    MCT_SELECTION_LOOKS_ON, /* the second window: keep the state, too */
    MCT_SELECTION_ENDS,     /* the windows are over: select with both states */
} mct_selection_due;

/* Steps of each window, of whole updates. */
static inline uint32_t mct_selection_look(uint32_t every, uint32_t samples_per_update) {
    const uint32_t share = MCT_SELECTION_LOOKS * samples_per_update;
    return (every / share + (every % share > 0 ? 1u : 0u)) * samples_per_update;
}

/* Whether steps can be selected every so many steps. */
static inline int32_t mct_selection_is_sound(uint32_t every, uint32_t samples_per_update) {
    return every % samples_per_update == 0 && every < UINT32_C(1) << 24 &&
           every > 2u * mct_selection_look(every, samples_per_update);
}

/* What is due before the step of this number. */
static inline mct_selection_due mct_selection_at(uint32_t position, uint32_t every,
                                                 uint32_t samples_per_update) {
    const uint32_t look = mct_selection_look(every, samples_per_update), place = position % every;
    return place == 0           ? MCT_SELECTION_BEGINS
           : place == look      ? MCT_SELECTION_LOOKS_ON
           : place == 2u * look ? MCT_SELECTION_ENDS
                                : MCT_SELECTION_STAYS;
}

/* Of a step's time, in steps with a selection, so that those of a period take share_q16 in the mean.
 * share_q16: of MCT_SELECTION_WHOLE_Q16, and no more, so that nothing overflows. */
static inline uint32_t mct_selection_share(uint32_t share_q16, uint32_t every,
                                           uint32_t samples_per_update) {
    const uint32_t looks = 2u * mct_selection_look(every, samples_per_update);
    const uint64_t all = MCT_CAST(uint64_t, every) * share_q16;
    const uint64_t taken = MCT_CAST(uint64_t, looks) << 16;
    return all > taken ? MCT_CAST(uint32_t, (all - taken) / (every - looks)) : 0u;
}

#ifdef __cplusplus
}
#endif

#endif
