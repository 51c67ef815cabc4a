/* Sums of gradients over all positions, for some channels at once. */
#ifndef MCT_BIAS_SUMS_H
#define MCT_BIAS_SUMS_H

#include "mct_fixedpoint.h"
#include "mct_simd.h"

#define MCT_BIAS_LANES (4 * MCT_LANES)

/* sums[c] = sum of dy[position * stride + c] for c < count <= MCT_BIAS_LANES; sums holds
 * MCT_BIAS_LANES. */
static inline void mct_bias_sums(const int8_t *dy, int32_t positions, int32_t stride, int32_t count,
                                 int32_t *sums) {
    for (int32_t c = 0; c < count; c += MCT_LANES) {
        const int32_t lanes = mct_min(count - c, MCT_LANES);
        mct_v32 sum = {0};
        for (int32_t position = 0; position < positions; position++) {
            sum += mct_v_load_s8(dy + position * stride + c, lanes);
        }
        mct_v_store(sums + c, sum);
    }
}

#endif
