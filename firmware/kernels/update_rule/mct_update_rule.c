/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_update_rule.h"

#include "mct_fixedpoint.h"

/* Directions are larger than sums of gradients, in smaller units: rates may shift further. */
#define MCT_ADAPTED_FINER 16

mct_rate mct_direction_rate(const mct_updater *u, int32_t c, int32_t exponent, int32_t root_q31) {
    const mct_parameter *parameter = u->parameter;
    const int32_t i = parameter->per_channel ? c : 0;
    const int32_t mult_q31 = mct_high_mul(parameter->mult_q31[i], u->step->lr_mult_q31);
    const int32_t shift = parameter->shift[i] + u->step->lr_shift + exponent;
    const int32_t bits = mct_shift_right_finer(shift, MCT_ADAPTED_FINER) - MCT_FRACTION_BITS;
    return (mct_rate){
        .mult_q31 = root_q31 == MCT_NO_ROOT ? mult_q31 : mct_high_mul(mult_q31, root_q31),
        .left = mct_max(32 - bits, 0),
        .right = mct_max(bits - 32, 0),
    };
}

int32_t mct_sums_bits(const int32_t *sums, int32_t count) {
    uint32_t all = 0;
    for (int32_t j = 0; j < count; j++) {
        all |= sums[j] < 0 ? 0u - (uint32_t)sums[j] : (uint32_t)sums[j];
    }
    return mct_bit_length64(all);
}

int32_t mct_moved(int32_t sum, int32_t left) {
    return left >= 0 ? (int32_t)((uint32_t)sum << (left & 31)) : sum >> mct_min(-left, 31);
}

void mct_adapt_s8(const mct_updater *u, const mct_update_rule *rule, mct_channel channel,
                  int32_t *sums) {
    const mct_rate rate = rule->direct(u, &rule->slots, channel, sums);
    if (channel.stride == 1) {
        mct_update_scaled_s8(u, &rate, 1, sums, channel.first, channel.count);
        return;
    }
    for (int32_t j = 0; j < channel.count; j++) {
        mct_update_scaled_s8(u, &rate, 1, &sums[j], channel.first + j * channel.stride, 1);
    }
}

/* What to subtract from bias c, before its limit. */
static int32_t mct_bias_delta(const mct_updater *u, const mct_update_rule *rule, int32_t c,
                              int32_t sum) {
    const mct_rate rate = rule->direct(u, &rule->slots, (mct_channel){c, c, 1, 1}, &sum);
    const int64_t fraction = ((int64_t)sum * rate.mult_q31) >> (32 - rate.left + rate.right);
    const int64_t random = mct_random16(u->key, (uint32_t)c);
    return mct_saturate32((fraction + random) >> MCT_FRACTION_BITS);
}

void mct_adapt_bias_s32(const mct_updater *u, const mct_update_rule *rule, int32_t c, int32_t sum) {
    int32_t *b = (int32_t *)u->parameter->values + c;
    const int32_t delta =
        mct_clamp(mct_bias_delta(u, rule, c, sum), -MCT_BIAS_STEP_LIMIT, MCT_BIAS_STEP_LIMIT);
    *b = (int32_t)mct_clamp64((int64_t)*b - delta, -MCT_BIAS_LIMIT, MCT_BIAS_LIMIT);
}

void mct_adapt_bias_s16(const mct_updater *u, const mct_update_rule *rule, int32_t c, int32_t sum) {
    int16_t *difference = (int16_t *)u->parameter->values + c;
    const int32_t most = MCT_BIAS_STEP_LIMIT >> -u->parameter->residual_bits;
    const int32_t delta = mct_clamp(mct_bias_delta(u, rule, c, sum), -most, most);
    *difference =
        (int16_t)mct_clamp(*difference - delta, -MCT_DIFFERENCE_LIMIT, MCT_DIFFERENCE_LIMIT);
}
