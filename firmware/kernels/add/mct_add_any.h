/* SPDX-License-Identifier: Apache-2.0 */
/* An addition with any shifts, one element after the other: the definition, and what bodies do with
 * shifts that they have no faster way for. */
#ifndef MCT_ADD_ANY_H
#define MCT_ADD_ANY_H

#include "mct_add.h"
#include "mct_fixedpoint.h"

static inline int32_t mct_add_scaled_operand(const mct_scaled *scaled, int32_t value,
                                             int32_t left_shift) {
    const int32_t shifted = (value - scaled->zero_point) * (1 << left_shift);
    return mct_requantize_q31(shifted, scaled->mult_q31, scaled->shift);
}

static inline void mct_add_any(const mct_add_s8_params *p, const int8_t *a, const int8_t *b,
                               int8_t *y, uint8_t *mask) {
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t sum = mct_add_scaled_operand(&p->a, a[i], p->left_shift) +
                            mct_add_scaled_operand(&p->b, b[i], p->left_shift);
        const int32_t scaled = mct_requantize_q31(sum, p->y.mult_q31, p->y.shift);
        mct_clamp_store(scaled + p->y.zero_point, p->low, p->high, i, y, mask);
    }
}

#endif
