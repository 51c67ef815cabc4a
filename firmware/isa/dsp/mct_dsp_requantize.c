/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_requantize.h"

#define MCT_DSP_MOST_BITS 22

static int32_t mct_dsp_requantized(const mct_requantize *q, int32_t m, int64_t sum) {
    const int32_t held = mct_saturate32(sum); /* as every sum that there can be */
    return q->rounds_once ? mct_requantize_once_q31(held, q->mult_q31[m], q->shift[m])
                          : mct_requantize_q31(held, q->mult_q31[m], q->shift[m]);
}

/* What it is for channel c if the short way does not take it, or only once b[c] is known. */
static __attribute__((noinline)) mct_dsp_channel mct_dsp_rare_channel(const mct_requantize *q,
                                                                      const int32_t *b, int32_t c,
                                                                      int32_t depth) {
    const int32_t m = q->per_channel ? c : 0;
    if (q->shift[m] < 0) {
        const int64_t spread = (int64_t)depth * (255 * 128);
        const int32_t least = mct_dsp_requantized(q, m, b[c] - spread);
        if (least == mct_dsp_requantized(q, m, b[c] + spread)) {
            return (mct_dsp_channel){0, 0, 2 * (q->zero_point + least) + 1, 0};
        }
    }
    return (mct_dsp_channel){0, q->mult_q31[m], 0, -1};
}

void mct_dsp_channels_of(const mct_requantize *q, const int32_t *b, int32_t c, int32_t count,
                         int32_t depth, mct_dsp_channel *channels) {
    const uint32_t most_bits = q->rounds_once ? 0 : MCT_DSP_MOST_BITS;
    const int32_t limit = (1 << 30) - 1 - depth * (255 * 128);
    const int32_t half = 2 * q->zero_point + 1, mask = q->per_channel ? -1 : 0;
    const int32_t *mult_q31 = q->mult_q31;
    const int8_t *shift = q->shift;
    int32_t rare = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t m = (c + i) & mask, bits = ~shift[m], bias = b[c + i];
        const int short_way = (uint32_t)bits < most_bits && (bias ^ bias >> 31) < limit;
        channels[i].start = (int32_t)((uint32_t)bias * 2);
        channels[i].mult_q31 = mult_q31[m];
        channels[i].half = (int32_t)((uint32_t)half << (bits & 31));
        channels[i].bits = short_way ? bits : -1;
        rare |= channels[i].bits;
    }
    for (int32_t i = 0; rare < 0 && i < count; i++) { /* apart, so that the others need no call */
        if (channels[i].bits < 0) {
            channels[i] = mct_dsp_rare_channel(q, b, c + i, depth);
        }
    }
}
