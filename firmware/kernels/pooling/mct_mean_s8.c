/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_fixedpoint.h"
#include "mct_pooling.h"

void mct_mean_s8(const mct_mean_s8_params *p, const int8_t *x, int8_t *y, uint8_t *mask) {
    const int32_t positions = p->x.h * p->x.w;
    for (int32_t c = 0; c < p->x.c; c++) {
        int32_t sum = 0;
        for (int32_t position = 0; position < positions; position++) {
            sum += x[position * p->x.c + c] - p->x_zero_point;
        }
        const int32_t scaled = mct_requantize_q31(sum, p->mult_q31, p->shift);
        mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, c, y, mask);
    }
}
