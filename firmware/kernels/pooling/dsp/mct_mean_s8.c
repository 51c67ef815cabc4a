/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_sums.h"
#include "mct_fixedpoint.h"
#include "mct_pooling.h"

void mct_mean_s8(const mct_mean_s8_params *p, const int8_t *x, int8_t *y, uint8_t *mask) {
    const int32_t positions = p->x.h * p->x.w, channels = p->x.c;
    const int32_t mult_q31 = p->mult_q31, shift = p->shift, zero_point = p->y_zero_point;
    const int32_t low = p->low, high = p->high, start = positions * p->x_zero_point;
    const mct_dsp_runs runs = {1, positions, channels, 0};
    for (int32_t c = 0; c < channels; c += 4) {
        mct_sums4 sums;
        const int32_t lanes = mct_dsp_sums_of(&runs, x, c, channels, &sums);
        for (int32_t l = 0; l < lanes; l++) {
            const int32_t scaled = mct_requantize_q31(sums.lane[l] - start, mult_q31, shift);
            mct_clamp_store(scaled + zero_point, low, high, c + l, y, mask);
        }
    }
}
