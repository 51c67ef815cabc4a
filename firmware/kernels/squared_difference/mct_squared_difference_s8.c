/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_squared_difference.h"

#include "mct_add_any.h"

#define MCT_DIFFERENCE_SHIFT 7

void mct_squared_difference_s8(const mct_squared_difference_s8_params *p, const int8_t *a,
                               const int8_t *b, int8_t *y, uint8_t *mask) {
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t difference = mct_add_scaled_operand(&p->a, a[i], MCT_DIFFERENCE_SHIFT) -
                                   mct_add_scaled_operand(&p->b, b[i], MCT_DIFFERENCE_SHIFT);
        const int32_t scaled =
            mct_requantize_q31(difference * difference, p->y.mult_q31, p->y.shift);
        mct_clamp_store(scaled + p->y.zero_point, p->low, p->high, i, y, mask);
    }
}
