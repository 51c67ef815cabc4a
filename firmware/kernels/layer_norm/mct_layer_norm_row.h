/* SPDX-License-Identifier: Apache-2.0 */
/* What forward and backward pass need to know of a row. */
#ifndef MCT_LAYER_NORM_ROW_H
#define MCT_LAYER_NORM_ROW_H

#include "mct_fixedpoint.h"
#include "mct_root.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_NORMALIZED_BITS 22
#define MCT_PARAMETER_BITS 12
#define MCT_GAIN_BITS 6
#define MCT_MEAN_BITS 14 /* these two in the gradient */
#define MCT_BACK_ROOT_BITS 15

typedef struct {
    int32_t channels, sum; /* channels times the mean, or times the origin */
    int32_t root;          /* 2^half / sqrt(2^16 * channels^2 * (variance + eps)) in Q2.29 */
    int32_t half;
} mct_layer_norm_row;

/* origin: what stands for the mean, NULL for the mean itself. least: what channels^2 * variance
 * counts at least. */
static inline mct_layer_norm_row mct_layer_norm_begin(const int8_t *x, int32_t channels,
                                                      const int32_t *origin, uint64_t epsilon,
                                                      int32_t least) {
    int32_t sum = 0;
    int32_t squares = 0;
    for (int32_t c = 0; c < channels; c++) {
        sum += x[c];
        squares += x[c] * x[c];
    }
    const int32_t total = origin ? channels * *origin : sum;
    const int64_t exact = (int64_t)channels * squares - (int64_t)total * (2 * sum - total);
    const int64_t variance = exact < least ? least : exact;
    const uint64_t w = ((uint64_t)variance << 16) + epsilon;
    const int32_t half = (mct_bit_length64(w) + 1) >> 1;
    const int32_t right = 2 * half - 31;
    const uint64_t a = right > 0 ? w >> right : w << -right;
    mct_layer_norm_row row;
    row.channels = channels;
    row.sum = total;
    row.root = mct_reciprocal_root((int32_t)a);
    row.half = half;
    return row;
}

/* (x - mean) / sqrt(variance + eps) with MCT_NORMALIZED_BITS behind the point, rounded down. */
static inline int32_t mct_normalized(const mct_layer_norm_row *row, int32_t x) {
    const int32_t difference = row->channels * x - row->sum;
    return (int32_t)(((int64_t)difference * row->root) >> (row->half - 1));
}

/* As the backward pass reads gamma. */
static inline int32_t mct_back_gamma(int32_t gamma, int32_t shift) {
    return mct_clamp(gamma >> shift, -32767, 32767);
}

#ifdef __cplusplus
}
#endif

#endif
