/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors a step trains under a time budget: as important together as can be, in integers.
 * mcutrain/sparse/elastic.py is the same in Python, bit for bit.
 *
 * To train a tensor its update runs, and before it the backward nodes that pass the gradient on to it.
 * A reach is a set of such nodes, and all tensors that can be trained then. Given the reach, what is
 * left of the budget is filled by a knapsack; docs/numerics-experiments.md says more.
 *
 * Times are instructions or cycles, whichever: each below 2^31, all together below 2^32. */
#ifndef MCT_ELASTIC_H
#define MCT_ELASTIC_H

#include <stdint.h>

#include "mct_state.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_ELASTIC_UNITS 256     /* of time that the knapsack knows at most */
#define MCT_ELASTIC_SPARE_UNITS 4 /* of these beyond the budget */
#define MCT_ELASTIC_EXCHANGES 8   /* at most, after the knapsack */
#define MCT_ELASTIC_ONE_Q16 65536u

/* A bit for each tensor, the lowest of each word first. */
#define MCT_ELASTIC_WORDS(tensors) (((tensors) + 31u) / 32u)

/* For each number of units an importance and a reach; then, in one place, the best importance of all
 * reaches, or a decision for each tensor and number of units. 4,236 bytes for 84 tensors. */
#define MCT_ELASTIC_SCRATCH_BYTES(tensors)                                                         \
    (6u * (MCT_ELASTIC_UNITS + 2u) +                                                               \
     ((tensors) * (MCT_ELASTIC_UNITS / 8u) > 4u * (MCT_ELASTIC_UNITS + 2u)                         \
          ? (tensors) * (MCT_ELASTIC_UNITS / 8u)                                                   \
          : 4u * (MCT_ELASTIC_UNITS + 2u)))

/* Its tensors are reach_tensors[first … end - 1] and those always trained. One that begins where the
 * one before begins has all of that one's, and more. */
typedef struct {
    uint32_t time; /* of its backward nodes, without updates */
    uint16_t first, end;
} mct_elastic_reach;

/* update_times: of each tensor. reaches: the cheapest first, beginning with what the always trained
 * tensors need. always: a bit for each tensor. */
typedef struct {
    const uint32_t *update_times;
    const mct_elastic_reach *reaches;
    const uint16_t *reach_tensors;
    const uint32_t *always;
    uint16_t tensor_count, reach_count;
} mct_elastic_problem;

/* Time for the backward pass so that a step takes a share of what it could: of the step,
 * share * (forward + backward) - forward, rounded down, 0 if that is negative. backward_time: if all is
 * trained. A share above 1 counts as 1. */
uint32_t mct_elastic_budget(uint32_t share_q16, uint32_t forward_time, uint32_t backward_time);

/* Writes which tensors are trained into MCT_ELASTIC_WORDS(tensor_count) words of `selection`; bits
 * behind the last tensor are 0.
 *
 * importance: of each tensor, 0 or more, below 2^31 together; one of 0 is not trained. budget: of time
 * for updates and backward nodes. scratch: MCT_ELASTIC_SCRATCH_BYTES(tensor_count), aligned to 4.
 *
 * MCT_ERROR_BUDGET, and the always trained ones alone, if not even they fit. */
mct_status mct_elastic_choose(const mct_elastic_problem *problem, const int32_t *importance,
                              uint32_t budget, void *scratch, uint32_t *selection);

#ifdef __cplusplus
}
#endif

#endif
