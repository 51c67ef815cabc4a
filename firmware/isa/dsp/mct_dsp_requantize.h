/* SPDX-License-Identifier: Apache-2.0 */
/* From twice an int32 sum to int8 in four instructions, with the bits of mct_requantize_q31.
 *
 * v = (sum * mult_q31 + 2^30) >> 31 is the rounded high half of (2 * sum) * mult_q31. The second
 * rounding, by n = -shift bits and halves away from zero, is (v + 2^(n-1) - (v < 0)) >> n; there the
 * sign may be the sum's, because v = 0 gives 0 either way; and 2^n * zero_point goes along.
 * It takes 1 <= n <= 22 and |sum| < 2^30. A channel that does not keep that is constant if its least and
 * largest sum give the same, as those of dead channels do; whatever is left goes the portable way. */
#ifndef MCT_DSP_REQUANTIZE_H
#define MCT_DSP_REQUANTIZE_H

#include "mct_dsp.h"
#include "mct_fixedpoint.h"

/* What a channel's sums start from and what they are scaled by. */
typedef struct {
    int32_t start; /* twice the bias; 0 if bits < 0 */
    int32_t mult_q31;
    int32_t half; /* (2 * zero_point + 1) << bits */
    int32_t bits; /* n - 1; negative: the portable way */
} mct_dsp_channel;

/* Those of the channels c … c + count - 1. depth: how many products of a weight and a difference of two int8 a
 * sum has. */
void mct_dsp_channels_of(const mct_requantize *q, const int32_t *b, int32_t c, int32_t count,
                         int32_t depth, mct_dsp_channel *channels);

/* Twice the value before its clamp, and a bit behind the point. */
static inline int32_t mct_dsp_scaled(const mct_dsp_channel *channel, int32_t twice) {
    const int32_t sum = mct_add_high_product(channel->half, twice, channel->mult_q31);
    return (sum + (twice >> 31)) >> channel->bits;
}

/* mct_requantize_once_q31: from shift -2 on the half that is added lies in the product's higher word. */
static inline int32_t mct_dsp_requantized_once(int32_t sum, int32_t mult_q31, int32_t shift) {
    if (shift > -2) {
        return mct_requantize_once_q31(sum, mult_q31, shift);
    }
    const int64_t product = (int64_t)sum * mult_q31 + (sum >> 31);
    return ((int32_t)(product >> 32) + (1 << (-2 - shift))) >> (-1 - shift);
}

/* Where the results go: that of the lane l and channel c to y[first + l * stride + c]. */
typedef struct {
    const mct_requantize *q;
    const int32_t *b;
    int8_t *y;
    uint8_t *mask; /* cleared before, or NULL */
    int32_t stride;
    int32_t full; /* 1: low and high are int8's own */
} mct_dsp_output;

/* Clears the mask. */
static inline mct_dsp_output mct_dsp_output_of(const mct_requantize *q, const int32_t *b,
                                               int32_t positions, int32_t channels, int8_t *y,
                                               uint8_t *mask) {
    if (mask != NULL) {
        memset(mask, 0, (size_t)((positions * channels + 7) / 8));
    }
    return (mct_dsp_output){q, b, y, mask, channels, q->low == -128 && q->high == 127};
}

/* Element i, before its clamp: its bit of the mask. */
static inline void mct_dsp_note(uint8_t *mask, int32_t i, int passes) {
    if (mask != NULL) {
        mask[i >> 3] = (uint8_t)(mask[i >> 3] | passes << (i & 7));
    }
}

/* Twice the sums of channel c at the elements i, i + stride …, the portable way. */
static __attribute__((noinline, unused)) void mct_dsp_store_portable(const mct_dsp_output *out,
                                                                     int32_t c,
                                                                     const int32_t *twice,
                                                                     int32_t i, int32_t count) {
    const mct_requantize *q = out->q;
    const int32_t m = q->per_channel ? c : 0;
    const int32_t mult = q->mult_q31[m], shift = q->shift[m];
    const int32_t zero_point = q->zero_point, low = q->low, high = q->high;
    const int32_t stride = out->stride, once = q->rounds_once;
    const uint32_t bias = (uint32_t)out->b[c];
    int8_t *y = out->y;
    uint8_t *mask = out->mask;
    for (int32_t n = 0; n < count; n++, i += stride) {
        const int32_t sum = (int32_t)(bias + (uint32_t)(twice[n] >> 1));
        const int32_t value = zero_point + (once ? mct_requantize_once_q31(sum, mult, shift)
                                                 : mct_requantize_q31(sum, mult, shift));
        const int32_t clamped = mct_clamp(value, low, high);
        y[i] = (int8_t)clamped;
        mct_dsp_note(mask, i, value == clamped);
    }
}

/* The same for any limits, any channel. */
static __attribute__((noinline, unused)) void mct_dsp_store(const mct_dsp_output *out,
                                                            const mct_dsp_channel *of, int32_t c,
                                                            const int32_t *twice, int32_t i,
                                                            int32_t count) {
    if (of->bits < 0) {
        mct_dsp_store_portable(out, c, twice, i, count);
        return;
    }
    const mct_dsp_channel channel = *of;
    const int32_t low = out->q->low, high = out->q->high, stride = out->stride;
    int8_t *y = out->y;
    uint8_t *mask = out->mask;
    for (int32_t n = 0; n < count; n++, i += stride) {
        const int32_t value = mct_dsp_scaled(&channel, twice[n]) >> 1;
        const int32_t clamped = mct_clamp(value, low, high);
        y[i] = (int8_t)clamped;
        mct_dsp_note(mask, i, value == clamped);
    }
}

/* Four lanes, for int8's own limits, no mask, and bits >= 0. */
static inline void mct_dsp_store_plain(const mct_dsp_channel *channel, const mct_sums4 *twice,
                                       int32_t stride, int8_t *y) {
    y[0] = (int8_t)mct_half_saturate8(mct_dsp_scaled(channel, twice->lane[0]));
    y[stride] = (int8_t)mct_half_saturate8(mct_dsp_scaled(channel, twice->lane[1]));
    y[2 * stride] = (int8_t)mct_half_saturate8(mct_dsp_scaled(channel, twice->lane[2]));
    y[3 * stride] = (int8_t)mct_half_saturate8(mct_dsp_scaled(channel, twice->lane[3]));
}

#endif
