/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_div.h"

#include "mct_fixedpoint.h"

#define MCT_FACTOR_BITS 22
#define MCT_FACTOR_HALF (INT64_C(1) << (MCT_FACTOR_BITS - 1))

void mct_div_s8(const mct_div_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    for (int32_t i = 0; i < p->elements; i++) {
        const int64_t product = (int64_t)(a[i] - p->a_zero_point) * p->factors[b[i] + 128];
        const int32_t scaled = (int32_t)((product + MCT_FACTOR_HALF) >> MCT_FACTOR_BITS);
        mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, i, y, mask);
    }
}
