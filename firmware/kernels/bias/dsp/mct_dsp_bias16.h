/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of int16 over positions, four channels at a time. */
#ifndef MCT_DSP_BIAS16_H
#define MCT_DSP_BIAS16_H

#include "mct_dsp.h"
#include "mct_fixedpoint.h"

/* How many int16 an int32 can sum. */
#define MCT_BIAS16_POSITIONS 65536

typedef struct {
    int64_t lane[4];
} mct_bias16_sums;

/* The sums of `columns`, 1 to 4, neighbouring channels. */
static inline mct_bias16_sums mct_bias16_sums4(const int16_t *dy, int32_t positions,
                                               int32_t channels, int32_t columns) {
    mct_bias16_sums sums = {{0, 0, 0, 0}};
    while (positions > 0) {
        const int32_t count = mct_min(positions, MCT_BIAS16_POSITIONS);
        mct_sums4 part = {{0, 0, 0, 0}};
        for (int32_t n = 0; columns == 4 && n < count; n++, dy += channels) {
            const uint32_t first = mct_load32(dy), second = mct_load32(dy + 2);
            part.lane[0] += mct_low(first);
            part.lane[1] += mct_high(first);
            part.lane[2] += mct_low(second);
            part.lane[3] += mct_high(second);
        }
        for (int32_t n = 0; columns < 4 && n < count; n++, dy += channels) {
            for (int32_t l = 0; l < columns; l++) {
                part.lane[l] += dy[l];
            }
        }
        for (int32_t l = 0; l < 4; l++) {
            sums.lane[l] += part.lane[l];
        }
        positions -= count;
    }
    return sums;
}

#endif
