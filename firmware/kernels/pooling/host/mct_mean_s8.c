/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_pooling.h"
#include "mct_requantize_tile.h"

/* Vectors of channels, whose sums stay in registers; rows of x are read in order. */
#define MCT_MEAN_VECTORS 4

static void mct_mean_lanes(const mct_mean_s8_params *p, const int8_t *x, int32_t c, int32_t count,
                           int32_t *sums) {
    const int32_t positions = p->x.h * p->x.w, channels = p->x.c;
    mct_v32 acc[MCT_MEAN_VECTORS];
    memset(acc, 0, sizeof acc);
    for (int32_t position = 0; position < positions; position++) {
        const int8_t *from = x + position * channels + c;
        for (int v = 0; v < MCT_MEAN_VECTORS && v * MCT_LANES < count; v++) {
            acc[v] += mct_v_load_s8(from + v * MCT_LANES, count - v * MCT_LANES);
        }
    }
    for (int v = 0; v < MCT_MEAN_VECTORS; v++) {
        mct_v_store(sums + v * MCT_LANES, acc[v] - positions * p->x_zero_point);
    }
}

void mct_mean_s8(const mct_mean_s8_params *p, const int8_t *x, int8_t *y, uint8_t *mask) {
    for (int32_t c = 0; c < p->x.c; c += MCT_MEAN_VECTORS * MCT_LANES) {
        int32_t sums[MCT_MEAN_VECTORS * MCT_LANES];
        const int32_t count = mct_min(p->x.c - c, MCT_MEAN_VECTORS * MCT_LANES);
        mct_mean_lanes(p, x, c, count, sums);
        for (int32_t i = 0; i < count; i++) {
            const int32_t scaled = mct_requantize_q31(sums[i], p->mult_q31, p->shift);
            mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, c + i, y, mask);
        }
    }
}
