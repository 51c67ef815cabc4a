/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of gradients over all positions, for MCT_LANES channels at once. */
#ifndef MCT_BIAS_SUMS_H
#define MCT_BIAS_SUMS_H

#include "mct_fixedpoint.h"
#include "mct_simd.h"

/* sums[l] = sum over positions of dy[position * channels + l] for l < lanes. sums: [MCT_LANES] */
static inline void mct_bias_sums(const int8_t *dy, int32_t positions, int32_t channels,
                                 int32_t lanes, int32_t *sums) {
    mct_v32 sum = {0};
    for (int32_t position = 0; position < positions; position++) {
        sum += mct_v_load_s8(dy + position * channels, lanes);
    }
    mct_v_store(sums, sum);
}

#endif
