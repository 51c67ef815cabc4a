/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_mul.h"

#include "mct_fixedpoint.h"

void mct_mul_s8(const mct_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    for (int32_t position = 0; position < p->positions; position++) {
        const int32_t first = position * p->channels;
        const int8_t *row = p->b_per_channel ? b : b + first;
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t product = (a[first + c] - p->a_zero_point) * (row[c] - p->b_zero_point);
            const int32_t scaled = mct_requantize_q31(product, p->mult_q31, p->shift);
            mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, first + c, y, mask);
        }
    }
}
