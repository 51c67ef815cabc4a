/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_sums.h"
#include "mct_fixedpoint.h"
#include "mct_pooling.h"

void mct_average_pool_2d_s8(const mct_average_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                            uint8_t *mask) {
    const int32_t channels = p->y.c, low = p->low, high = p->high;
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            const mct_window_part part = mct_window_inside(&p->window, &p->x, row, column);
            const int32_t count = mct_window_count(&part);
            const int8_t *from = x;
            const mct_dsp_runs runs = mct_dsp_runs_of(&p->window, &p->x, &part, &from);
            for (int32_t c = 0; c < channels; c += 4) {
                mct_sums4 sums;
                const int32_t lanes = mct_dsp_sums_of(&runs, from, c, channels, &sums);
                for (int32_t l = 0; l < lanes; l++) {
                    const int32_t sum = sums.lane[l];
                    const int32_t half = sum > 0 ? count / 2 : -(count / 2);
                    mct_clamp_store((sum + half) / count, low, high, i++, y, mask);
                }
            }
        }
    }
}
