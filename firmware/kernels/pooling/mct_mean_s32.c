/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_pooling.h"

void mct_mean_s32(const mct_mean_s32_params *p, const int8_t *x, int32_t *y) {
    const int32_t positions = p->x.h * p->x.w;
    for (int32_t c = 0; c < p->x.c; c++) {
        int32_t sum = 0;
        for (int32_t position = 0; position < positions; position++) {
            sum += x[position * p->x.c + c] - p->x_zero_point;
        }
        y[c] = sum;
    }
}
