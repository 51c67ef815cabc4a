/* SPDX-License-Identifier: Apache-2.0 */
/* A segment of mct_stream.h, a few strips at a time. */
#ifndef MCT_STREAM_SOME_H
#define MCT_STREAM_SOME_H

#include "mct_budget.h"
#include "mct_stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a segment goes on: at this stage. went_on: whether a stage before it did since stage 0. All 0
 * before it begins. */
typedef struct {
    uint16_t stage;
    bool is_begun, went_on;
} mct_strips;

/* Computes strips in the order of mct_segment_compute, as far as the budget allows. costs: of a strip
 * of each stage. Returns whether all are done; then `at` is as before the segment began. */
bool mct_segment_some(const mct_segment *segment, uint8_t *arena, const uint32_t *costs,
                      mct_strips *at, mct_budget *budget);

#ifdef __cplusplus
}
#endif

#endif
