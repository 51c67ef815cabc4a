/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of probabilities in vectors. A row's exponentials are those of at most 256 differences, so each
 * is computed once in a call. */
#ifndef MCT_SOFTMAX_EXPS_H
#define MCT_SOFTMAX_EXPS_H

#include "mct_requantize_tile.h"
#include "mct_softmax_row.h"

#define MCT_MOST_CLASSES 8191
#define MCT_UNKNOWN (-1)

/* of[d]: exp of d below the largest, in Q0.31, or MCT_UNKNOWN. row: those of the row at hand. */
typedef struct {
    mct_softmax_row scale;
    int32_t of[256];
    int32_t row[MCT_MOST_CLASSES + MCT_LANES];
} mct_softmax_exps;

static inline void mct_exps_begin(mct_softmax_exps *exps, int32_t mult_q31, int32_t left_shift,
                                  int32_t diff_min) {
    exps->scale = (mct_softmax_row){0, mult_q31, left_shift, diff_min, 0, 0};
    for (int32_t d = 0; d < 256; d++) {
        exps->of[d] = MCT_UNKNOWN;
    }
}

static inline int32_t mct_row_largest(const int8_t *x, int32_t classes) {
    int8_t largest = x[0];
    for (int32_t c = 1; c < classes; c++) {
        largest = x[c] > largest ? x[c] : largest;
    }
    return largest;
}

/* The exponentials of a row, and what turns them into probabilities; those after it are 0. */
static inline void mct_exps_row(mct_softmax_exps *exps, const int8_t *x, int32_t classes) {
    const int32_t largest = mct_row_largest(x, classes);
    mct_vu32 sums = {0};
    exps->scale.largest = largest;
    for (int32_t c = 0; c < classes; c++) {
        int32_t e = exps->of[largest - x[c]];
        if (e == MCT_UNKNOWN) {
            e = mct_softmax_exp(&exps->scale, x[c]);
            exps->of[largest - x[c]] = e;
        }
        exps->row[c] = e;
    }
    mct_v_store(exps->row + classes, mct_v_all(0));
    for (int32_t c = 0; c < classes; c += MCT_LANES) {
        sums += (mct_vu32)mct_v_rounding_shift(mct_v_load(exps->row + c),
                                               mct_v_all(MCT_SUM_INTEGER_BITS));
    }
    const uint32_t sum = (uint32_t)mct_v_total((mct_v32)sums);
    exps->scale.factor = mct_reciprocal(sum, &exps->scale.headroom);
}

/* mct_softmax_probability of the classes c … c + MCT_LANES - 1 */
static inline mct_v32 mct_v_probability(const mct_softmax_exps *exps, int32_t c, int32_t bits) {
    const int32_t shift = MCT_SUM_INTEGER_BITS - exps->scale.headroom + 31 - bits;
    const mct_v32 product =
        mct_v_high_mul(mct_v_all(exps->scale.factor), mct_v_load(exps->row + c));
    return shift > 31 ? mct_v_all(0) : mct_v_rounding_shift(product, mct_v_all(shift));
}

#endif
