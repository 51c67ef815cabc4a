/* SPDX-License-Identifier: Apache-2.0 */
/* The direction is g / sqrt(v); v is the mean of the sum of a channel's squared gradients.
 *
 * first, second: int16 mantissas and exponents of v, one per output channel: v = mantissa *
 * 2^exponent, with 2^14 <= mantissa < 2^15, or 0. */
#include "mct_fixedpoint.h"
#include "mct_root.h"
#include "mct_update_rule.h"

#define MCT_WINDOW_BITS 7
#define MCT_SQUARED_BITS 15
#define MCT_MANTISSA_BITS 15

typedef struct {
    int32_t mantissa, exponent;
} mct_moment;

static mct_moment mct_squared(const int32_t *sums, int32_t count, int32_t exponent) {
    const int32_t lost = mct_max(mct_sums_bits(sums, count) - MCT_SQUARED_BITS, 0);
    uint64_t total = 0;
    for (int32_t j = 0; j < count; j++) {
        const int32_t x = sums[j] >> lost;
        total += (uint32_t)(x * x);
    }
    if (total == 0) {
        return (mct_moment){0, 0};
    }
    const int32_t places = mct_bit_length64(total) - MCT_MANTISSA_BITS;
    const uint64_t mantissa = places > 0 ? total >> places : total << -places;
    return (mct_moment){(int32_t)mantissa, 2 * (lost + exponent) + places};
}

/* v, moved by 2^-weight of its distance to a new square. */
static mct_moment mct_averaged(mct_moment v, mct_moment square, int32_t weight) {
    const int32_t common = v.mantissa == 0        ? square.exponent
                           : square.mantissa == 0 ? v.exponent
                                                  : mct_max(v.exponent, square.exponent);
    const int32_t a = mct_moved(v.mantissa << 15, v.exponent - common);
    const int32_t b = mct_moved(square.mantissa << 15, square.exponent - common);
    const int32_t mean = a - (a >> weight) + (b >> weight);
    if (mean == 0) {
        return (mct_moment){0, 0};
    }
    const int32_t places = mct_bit_length64((uint64_t)mean) - MCT_MANTISSA_BITS;
    const int32_t half = places > 0 ? 1 << places >> 1 : 0;
    const int32_t rounded = mct_moved(mean + half, -places);
    const int32_t carries = rounded >> MCT_MANTISSA_BITS;
    return (mct_moment){rounded >> carries, common - 15 + places + carries};
}

/* How much an update weighs: the first ones make a plain mean. */
static int32_t mct_weight_bits(uint32_t update) {
    return mct_clamp(mct_bit_length64(update + 1u) - 1, 0, MCT_WINDOW_BITS);
}

mct_rate mct_rmsprop(const mct_updater *u, const mct_slots *slots, mct_channel channel,
                     int32_t *sums) {
    int16_t *mantissa = (int16_t *)slots->first + channel.c;
    int16_t *exponent = (int16_t *)slots->second + channel.c;
    const mct_moment square = mct_squared(sums, channel.count, u->exponent);
    const mct_moment old = {*mantissa, *exponent};
    const mct_moment v = mct_averaged(old, square, mct_weight_bits(u->step->update));
    *mantissa = (int16_t)v.mantissa;
    *exponent = (int16_t)v.exponent;
    const int32_t is_odd = (v.exponent + MCT_MANTISSA_BITS) & 1;
    const int32_t half = (v.exponent + MCT_MANTISSA_BITS + is_odd) >> 1;
    const int32_t root = v.mantissa == 0 ? 0 : mct_reciprocal_root(v.mantissa << (16 - is_odd));
    return mct_direction_rate(u, channel.c, u->exponent + 2 - half, root);
}
