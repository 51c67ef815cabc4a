/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of int8 over positions, four channels at a time. */
#ifndef MCT_DSP_BIAS_H
#define MCT_DSP_BIAS_H

#include "mct_dsp_panel.h"
#include "mct_fixedpoint.h"

/* How many int8 an int16 can sum. */
#define MCT_BIAS_POSITIONS 256

/* Adds bytes of so many words, `step` apart, to pairs: 0 and 2 to the first, 1 and 3 to the second. */
static inline void mct_bias_add_words(const int8_t *dy, int32_t step, int32_t count,
                                      uint32_t pairs[2]) {
    uint32_t even = pairs[0], odd = pairs[1];
    for (; count >= 4; count -= 4) {
        for (int32_t i = 0; i < 4; i++, dy += step) {
            const uint32_t word = mct_load32(dy);
            even = mct_add_even_bytes(even, word);
            odd = mct_add_odd_bytes(odd, word);
        }
    }
    for (; count > 0; count--, dy += step) {
        even = mct_add_even_bytes(even, mct_load32(dy));
        odd = mct_add_odd_bytes(odd, mct_load32(dy));
    }
    pairs[0] = even;
    pairs[1] = odd;
}

/* The sums of `columns`, 1 to 4, neighbouring channels. */
static inline mct_sums4 mct_bias_sums4(const int8_t *dy, int32_t positions, int32_t channels,
                                       int32_t columns) {
    mct_sums4 sums = {{0, 0, 0, 0}};
    while (positions > 0) {
        const int32_t count = mct_min(positions, MCT_BIAS_POSITIONS);
        uint32_t pairs[2] = {0, 0};
        if (columns == 4) {
            mct_bias_add_words(dy, channels, count, pairs);
        } else {
            for (int32_t i = 0; i < count; i++) {
                const uint32_t word = mct_load_part(dy + i * channels, columns);
                pairs[0] = mct_add_even_bytes(pairs[0], word);
                pairs[1] = mct_add_odd_bytes(pairs[1], word);
            }
        }
        sums.lane[0] += mct_low(pairs[0]);
        sums.lane[1] += mct_low(pairs[1]);
        sums.lane[2] += mct_high(pairs[0]);
        sums.lane[3] += mct_high(pairs[1]);
        dy += count * channels;
        positions -= count;
    }
    return sums;
}

#endif
