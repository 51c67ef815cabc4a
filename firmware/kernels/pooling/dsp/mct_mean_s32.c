/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_sums.h"
#include "mct_pooling.h"

void mct_mean_s32(const mct_mean_s32_params *p, const int8_t *x, int32_t *y) {
    const int32_t positions = p->x.h * p->x.w, channels = p->x.c;
    const int32_t start = positions * p->x_zero_point;
    const mct_dsp_runs runs = {1, positions, channels, 0};
    for (int32_t c = 0; c < channels; c += 4) {
        mct_sums4 sums;
        const int32_t lanes = mct_dsp_sums_of(&runs, x, c, channels, &sums);
        for (int32_t l = 0; l < lanes; l++) {
            y[c + l] = sums.lane[l] - start;
        }
    }
}
