/* SPDX-License-Identifier: Apache-2.0 */
/* m <- 0.9 m + g; the direction is m before it is rounded to int8.
 *
 * first: int8 momentum, as the weights lie; second: int8 exponents, one per output channel. All is
 * added up in units of 2^unit, in which the largest has MCT_SUM_BITS bits at most; then a channel's
 * momentum gets the exponent with which its largest fits int8, and is rounded stochastically. */
#include "mct_fixedpoint.h"
#include "mct_update_rule.h"

#define MCT_DECAY_Q15 29491
#define MCT_DECAY_BITS 15
#define MCT_SUM_BITS 30
#define MCT_STORED_BITS 7
#define MCT_APART UINT32_C(0x80000000) /* of the counter of a second random number */

typedef struct {
    int32_t old_bits, new_bits; /* of the largest momentum and sum */
    int32_t unit;
} mct_scope;

static mct_scope mct_scope_of(const mct_updater *u, const int8_t *m, int32_t exponent,
                              mct_channel channel, const int32_t *sums) {
    int32_t largest = 0;
    for (int32_t j = 0; j < channel.count; j++) {
        const int32_t one = m[channel.first + j * channel.stride];
        largest = mct_max(largest, one < 0 ? -one : one);
    }
    mct_scope scope = {
        .old_bits = mct_bit_length64((uint64_t)largest),
        .new_bits = mct_sums_bits(sums, channel.count),
    };
    const int32_t old_top = scope.old_bits + exponent, new_top = scope.new_bits + u->exponent;
    const int32_t top = scope.old_bits == 0   ? new_top
                        : scope.new_bits == 0 ? old_top
                                              : mct_max(old_top, new_top);
    const int is_still = scope.old_bits == 0 && scope.new_bits == 0;
    scope.unit = is_still ? exponent : top + 1 - MCT_SUM_BITS;
    return scope;
}

/* m, rounded and with a new exponent, which it returns. */
static int32_t mct_store_momentum(const mct_updater *u, int8_t *m, int32_t unit,
                                  mct_channel channel, const int32_t *sums) {
    const int32_t spare = mct_sums_bits(sums, channel.count) - MCT_STORED_BITS;
    const int32_t lost = mct_max(mct_max(spare, 0), -128 - unit);
    for (int32_t j = 0; j < channel.count; j++) {
        const int32_t i = channel.first + j * channel.stride;
        const int32_t random = mct_random16(u->key, (uint32_t)i + MCT_APART);
        const int32_t fraction = mct_moved(sums[j], MCT_FRACTION_BITS - lost);
        m[i] = (int8_t)mct_clamp((fraction + random) >> MCT_FRACTION_BITS, -127, 127);
    }
    return mct_clamp(unit + lost, -128, 127);
}

mct_rate mct_momentum(const mct_updater *u, const mct_slots *slots, mct_channel channel,
                      int32_t *sums) {
    int8_t *m = slots->first, *exponent = (int8_t *)slots->second + channel.c;
    const mct_scope scope = mct_scope_of(u, m, *exponent, channel, sums);
    const int32_t gradient_left = u->exponent - scope.unit;
    const int32_t momentum_left = *exponent - MCT_DECAY_BITS - scope.unit;
    for (int32_t j = 0; j < channel.count; j++) {
        const int32_t decayed = m[channel.first + j * channel.stride] * MCT_DECAY_Q15;
        sums[j] = mct_moved(sums[j], gradient_left) + mct_moved(decayed, momentum_left);
    }
    *exponent = (int8_t)mct_store_momentum(u, m, scope.unit, channel, sums);
    return mct_direction_rate(u, channel.c, scope.unit, MCT_NO_ROOT);
}
