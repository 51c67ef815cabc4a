/* SPDX-License-Identifier: Apache-2.0 */
/* From an int32 sum to int8 with the bits of mct_requantize_q31, without the steps that a channel's usual
 * shift makes superfluous.
 *
 * v = (sum * mult_q31 + 2^30) >> 31 is the rounded high half of (2 * sum) * mult_q31. The second
 * rounding, by n = -shift bits and halves away from zero, is (v + 2^(n-1) - (v < 0)) >> n; there the
 * sign may be the sum's, because v = 0 gives 0 either way; and 2^n * zero_point goes along.
 * It takes 1 <= n <= 20 and |sum| < 2^30; whatever does not keep that goes the plain way. */
#ifndef MCT_TILED_REQUANTIZE_H
#define MCT_TILED_REQUANTIZE_H

#include "mct_fixedpoint.h"
#include "mct_tiled.h"

#define MCT_TILED_MOST_BITS 20

/* Whether the low half of a product costs an instruction of its own, as on RISC-V and MIPS. */
#ifndef MCT_TILED_HIGH_ALONE
#define MCT_TILED_HIGH_ALONE (MCT_TILED_CHANNELS == 3)
#endif

/* What a channel's sums are scaled by. */
typedef struct {
    int32_t mult_q31;
    int32_t half; /* what is added before the shift, with the zero point */
    int32_t bits; /* of the shift; 0: the plain way */
} mct_tiled_channel;

#if MCT_TILED_HIGH_ALONE
/* Twice v, rounded down, is the high half of (4 * sum) * mult_q31; its own rounding is one of the shift,
 * too, which is a bit longer. It takes |sum| < 2^29. */
#define MCT_TILED_LEAST_BITS 2
/* (sum * mult_q31 + 2^30) >> 31 for |sum| < 2^29 */
static MCT_ALWAYS_INLINE int32_t mct_tiled_high_mul(int32_t sum, int32_t mult_q31) {
    return (mct_high_half(4 * sum, mult_q31) + 1) >> 1;
}

static MCT_ALWAYS_INLINE int32_t mct_tiled_scaled(const mct_tiled_channel *channel, int32_t sum) {
    const int32_t high = mct_high_half(4 * sum, channel->mult_q31);
    return (high + channel->half + ((sum >> 31) | 1)) >> channel->bits;
}
#else
#define MCT_TILED_LEAST_BITS 1
/* (sum * mult_q31 + 2^30) >> 31 for |sum| < 2^30 */
static MCT_ALWAYS_INLINE int32_t mct_tiled_high_mul(int32_t sum, int32_t mult_q31) {
    const mct_long_product product = mct_long_product_of(2 * sum, mult_q31);
    return product.high + (int32_t)(product.low >> 31);
}

static MCT_ALWAYS_INLINE int32_t mct_tiled_scaled(const mct_tiled_channel *channel, int32_t sum) {
    const int32_t high = mct_tiled_high_mul(sum, channel->mult_q31);
    return (high + channel->half + (sum >> 31)) >> channel->bits;
}
#endif

/* depth: how many products of a weight and a difference of two int8 a sum has. */
static inline mct_tiled_channel mct_tiled_channel_of(const mct_requantize *q, int32_t bias,
                                                     int32_t c, int32_t depth) {
    const int32_t m = q->per_channel ? c : 0;
    const int32_t n = -q->shift[m], bits = n + MCT_TILED_LEAST_BITS - 1;
    const int32_t limit = (1 << (31 - MCT_TILED_LEAST_BITS)) - 1 - depth * (255 * 128);
    if (q->rounds_once || n < 1 || n > MCT_TILED_MOST_BITS || bias > limit || bias < -limit) {
        return (mct_tiled_channel){q->mult_q31[m], 0, 0};
    }
    return (mct_tiled_channel){q->mult_q31[m], (2 * q->zero_point + 1) * (1 << (bits - 1)), bits};
}

/* Where results go. */
typedef struct {
    const mct_requantize *q;
    int8_t *y;
    uint8_t *mask; /* cleared before, or NULL */
    int32_t low;
    uint32_t span; /* high - low */
} mct_tiled_output;

/* Clears the mask. elements: of y */
static inline mct_tiled_output mct_tiled_output_of(const mct_requantize *q, int32_t elements,
                                                   int8_t *y, uint8_t *mask) {
    for (int32_t i = 0; mask != NULL && i < (elements + 7) / 8; i++) {
        mask[i] = 0;
    }
    return (mct_tiled_output){q, y, mask, q->low, (uint32_t)(q->high - q->low)};
}

/* The value before its clamp where the short way does not lead. */
static MCT_APART int32_t mct_tiled_scale_plain(const mct_requantize *q, int32_t sum, int32_t c) {
    const int32_t m = q->per_channel ? c : 0;
    const int32_t scaled = q->rounds_once
                               ? mct_requantize_once_q31(sum, q->mult_q31[m], q->shift[m])
                               : mct_requantize_q31(sum, q->mult_q31[m], q->shift[m]);
    return scaled + q->zero_point;
}

/* Element i, before its clamp. */
static MCT_ALWAYS_INLINE void mct_tiled_put(const mct_tiled_output *out, int32_t value, int32_t i) {
    if ((uint32_t)(value - out->low) > out->span) {
        value = value < out->low ? out->low : out->low + (int32_t)out->span;
    } else if (out->mask != NULL) {
        out->mask[i >> 3] = (uint8_t)(out->mask[i >> 3] | 1u << (i & 7));
    }
    out->y[i] = (int8_t)value;
}

/* Element i, of channel c. */
static MCT_ALWAYS_INLINE void mct_tiled_store(const mct_tiled_output *out,
                                              const mct_tiled_channel *channel, int32_t c,
                                              int32_t sum, int32_t i) {
    const int32_t value =
        channel->bits > 0 ? mct_tiled_scaled(channel, sum) : mct_tiled_scale_plain(out->q, sum, c);
    mct_tiled_put(out, value, i);
}

/* The same where the short way leads and there is no mask. */
static MCT_ALWAYS_INLINE int8_t mct_tiled_short(const mct_tiled_channel *channel, int32_t low,
                                                uint32_t span, int32_t sum) {
    const int32_t value = mct_tiled_scaled(channel, sum);
    if ((uint32_t)(value - low) > span) {
        return (int8_t)(value < low ? low : low + (int32_t)span);
    }
    return (int8_t)value;
}

#endif
