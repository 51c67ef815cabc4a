/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_stream_some.h"

#include "mct_stream_body.h"

bool mct_segment_some(const mct_segment *segment, uint8_t *arena, const uint32_t *costs,
                      mct_strips *at, mct_budget *budget) {
    if (!at->is_begun) {
        mct_segment_start(segment, arena, false);
        at->is_begun = true;
    }
    do {
        if (at->stage == segment->stage_count) {
            at->stage = 0;
            at->went_on = false;
        }
        while (at->stage < segment->stage_count) {
            if (!mct_budget_allows(budget, costs[at->stage])) {
                return false;
            }
            if (advance(segment, arena, &segment->stages[at->stage])) {
                mct_budget_take(budget, costs[at->stage]);
                at->went_on = true;
            }
            at->stage++;
        }
    } while (at->went_on);
    *at = (mct_strips){0, false, false};
    return true;
}
