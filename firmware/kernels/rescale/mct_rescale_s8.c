/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_rescale.h"

#include "mct_fixedpoint.h"

void mct_rescale_s8(const mct_rescale_s8_params *p, const int8_t *x, int8_t *y, uint8_t *mask) {
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t scaled = mct_requantize_q31(x[i] - p->x_zero_point, p->mult_q31, p->shift);
        mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, i, y, mask);
    }
}
