/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_leaky_relu.h"

#include "mct_fixedpoint.h"

void mct_leaky_relu_s8(const mct_leaky_relu_s8_params *p, const int8_t *x, int8_t *y,
                       uint8_t *mask) {
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t value = x[i] - p->x_zero_point;
        const int32_t scaled =
            value >= 0 ? mct_requantize_q31(value, p->positive_mult_q31, p->positive_shift)
                       : mct_requantize_q31(value, p->negative_mult_q31, p->negative_shift);
        mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, i, y, mask);
    }
}
