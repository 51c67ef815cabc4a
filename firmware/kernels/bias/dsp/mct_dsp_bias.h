/* Sums of int8 over positions, four channels at a time. */
#ifndef MCT_DSP_BIAS_H
#define MCT_DSP_BIAS_H

#include "mct_dsp_panel.h"
#include "mct_fixedpoint.h"

/* How many int8 an int16 can sum. */
#define MCT_BIAS_POSITIONS 256

/* The sums of `columns`, 1 to 4, neighbouring channels. */
static inline mct_sums4 mct_bias_sums4(const int8_t *dy, int32_t positions, int32_t channels,
                                       int32_t columns) {
    mct_sums4 sums = {{0, 0, 0, 0}};
    while (positions > 0) {
        const int32_t count = mct_min(positions, MCT_BIAS_POSITIONS);
        uint32_t even = 0, odd = 0;
        for (int32_t i = 0; i < count; i++) {
            const uint32_t word = mct_row_word(dy, columns);
            even = mct_add_even_bytes(even, word);
            odd = mct_add_odd_bytes(odd, word);
            dy += channels;
        }
        sums.lane[0] += mct_low(even);
        sums.lane[1] += mct_low(odd);
        sums.lane[2] += mct_high(even);
        sums.lane[3] += mct_high(odd);
        positions -= count;
    }
    return sums;
}

#endif
