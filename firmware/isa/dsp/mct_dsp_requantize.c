#include "mct_dsp_requantize.h"

static int32_t mct_dsp_requantized(const mct_requantize *q, int32_t m, int64_t sum) {
    const int32_t held = mct_saturate32(sum); /* as every sum that there can be */
    return q->rounds_once ? mct_requantize_once_q31(held, q->mult_q31[m], q->shift[m])
                          : mct_requantize_q31(held, q->mult_q31[m], q->shift[m]);
}

mct_dsp_channel mct_dsp_rare_channel(const mct_requantize *q, const int32_t *b, int32_t c,
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
