/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_fixedpoint.h"
#include "mct_pooling.h"
#include "mct_window_sum.h"

void mct_average_pool_2d_s8(const mct_average_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                            uint8_t *mask) {
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            const mct_window_part part = mct_window_inside(&p->window, &p->x, row, column);
            const int32_t count = mct_window_count(&part);
            for (int32_t c = 0; c < p->y.c; c++) {
                const int32_t sum = mct_window_sum(&p->window, &p->x, &part, x + c);
                const int32_t half = sum > 0 ? count / 2 : -(count / 2);
                mct_clamp_store((sum + half) / count, p->low, p->high, i++, y, mask);
            }
        }
    }
}
