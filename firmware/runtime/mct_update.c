#include "mct_update.h"

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_residual.h"

mct_updater mct_update_begin(const mct_parameter *parameter, const mct_step *step,
                             const mct_exponent *dy_exponent, int32_t dropped_bits) {
    return (mct_updater){
        .parameter = parameter,
        .step = step,
        .key = mct_node_key(step->key, parameter->salt),
        .exponent = dy_exponent->now + dropped_bits,
    };
}

/* A rate times the learning rate, as a multiplier and a shift to the right by `bits`, which leaves
 * MCT_FRACTION_BITS behind the point; of sums that still have kept_bits of what others lack. */
typedef struct {
    int32_t mult_q31;
    int32_t bits;
    int32_t left, right; /* 32 - bits, or 0; bits - 32, or 0 */
} mct_rate;

static inline mct_rate mct_rate_of(const mct_updater *u, int32_t channel, int32_t kept_bits) {
    const mct_parameter *parameter = u->parameter;
    const int32_t c = parameter->per_channel ? channel : 0;
    const int32_t shift = parameter->shift[c] + u->step->lr_shift + u->exponent - kept_bits;
    const int32_t bits = mct_shift_right_finer(shift, kept_bits) - MCT_FRACTION_BITS;
    return (mct_rate){
        .mult_q31 = mct_high_mul(parameter->mult_q31[c], u->step->lr_mult_q31),
        .bits = bits,
        .left = mct_clamp(32 - bits, 0, 31),
        .right = mct_max(bits - 32, 0),
    };
}

/* Whether sum * 2^left fits int32. Then the high half of its product is the fraction: processors of 32
 * bits have an instruction for that, while a shift of 64 bits takes them many. */
static inline int mct_is_small(const mct_rate *rate, int32_t sum) {
    return rate->bits > 0 && (int32_t)((uint32_t)sum << rate->left) >> rate->left == sum;
}

static inline int32_t mct_small_delta(const mct_updater *u, const mct_rate *rate, int32_t sum,
                                      int32_t index) {
    const int32_t moved = (int32_t)((uint32_t)sum << rate->left);
    const int32_t fraction = (int32_t)(((int64_t)moved * rate->mult_q31) >> 32) >> rate->right;
    return (fraction + mct_random16(u->key, (uint32_t)index)) >> MCT_FRACTION_BITS;
}

static inline int64_t mct_delta(const mct_updater *u, const mct_rate *rate, int32_t sum,
                                int32_t index) {
    if (mct_is_small(rate, sum)) {
        return mct_small_delta(u, rate, sum, index);
    }
    const int64_t fraction = ((int64_t)sum * rate->mult_q31) >> rate->bits;
    return (fraction + mct_random16(u->key, (uint32_t)index)) >> MCT_FRACTION_BITS;
}

static inline void mct_update_weight(const mct_updater *u, const mct_rate *rate, int32_t sum,
                                     int32_t index) {
    int8_t *w = (int8_t *)u->parameter->values + index;
    uint8_t *residual = u->parameter->residual;
    const int32_t bits = u->parameter->residual_bits;
    const int32_t one = 1 << bits;
    const int32_t old = *w * one + mct_residual_get(residual, bits, index);
    const int32_t most = MCT_STEP_LIMIT * one;
    int32_t delta;
    if (mct_is_small(rate, sum)) {
        delta = mct_clamp(mct_small_delta(u, rate, sum, index), -most, most);
    } else {
        delta = (int32_t)mct_clamp64(mct_delta(u, rate, sum, index), -most, most);
    }
    const int32_t updated = mct_clamp(old - delta, -127 * one, 128 * one - 1);
    *w = (int8_t)(updated >> bits);
    mct_residual_set(residual, bits, index, updated & (one - 1));
}

static inline int32_t mct_accumulated(const mct_step *step, int32_t sum, int32_t total) {
    const int64_t added = step->sample == 0 ? sum : (int64_t)total + sum;
    return (int32_t)mct_clamp64(added, INT32_MIN, INT32_MAX);
}

void mct_update_row_s8(const mct_updater *u, int32_t c, const int32_t *sums, int32_t first,
                       int32_t count) {
    const mct_rate rate = mct_rate_of(u, c, 0);
    for (int32_t j = 0; j < count; j++) {
        mct_update_weight(u, &rate, sums[j], first + j);
    }
}

void mct_update_channels_s8(const mct_updater *u, const int32_t *sums, int32_t first,
                            int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        const mct_rate rate = mct_rate_of(u, j, 0);
        mct_update_weight(u, &rate, sums[j], first + j);
    }
}

void mct_update_row_wide_s8(const mct_updater *u, int32_t c, const int64_t *sums, int32_t first,
                            int32_t count) {
    const mct_rate exact = mct_rate_of(u, c, MCT_DROPPED_BITS_S16);
    const mct_rate narrow = mct_rate_of(u, c, 0);
    for (int32_t j = 0; j < count; j++) {
        const mct_fitted_sum sum = mct_fit_sum_s16(sums[j]);
        const mct_rate rate = sum.kept_bits > 0 ? exact : narrow;
        mct_update_weight(u, &rate, sum.value, first + j);
    }
}

void mct_update_channels_wide_s8(const mct_updater *u, const int64_t *sums, int32_t first,
                                 int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        const mct_fitted_sum sum = mct_fit_sum_s16(sums[j]);
        const mct_rate rate = mct_rate_of(u, j, sum.kept_bits);
        mct_update_weight(u, &rate, sum.value, first + j);
    }
}

static inline void mct_update_bias(const mct_updater *u, mct_fitted_sum sum, int32_t c) {
    int32_t *b = (int32_t *)u->parameter->values + c;
    const mct_rate rate = mct_rate_of(u, c, sum.kept_bits);
    const int64_t delta =
        mct_clamp64(mct_delta(u, &rate, sum.value, c), -MCT_BIAS_STEP_LIMIT, MCT_BIAS_STEP_LIMIT);
    *b = (int32_t)mct_clamp64(*b - delta, -MCT_BIAS_LIMIT, MCT_BIAS_LIMIT);
}

static inline void mct_update_difference(const mct_updater *u, mct_fitted_sum sum, int32_t c) {
    int16_t *difference = (int16_t *)u->parameter->values + c;
    const int32_t most = MCT_BIAS_STEP_LIMIT >> -u->parameter->residual_bits;
    const mct_rate rate = mct_rate_of(u, c, sum.kept_bits);
    const int32_t delta = (int32_t)mct_clamp64(mct_delta(u, &rate, sum.value, c), -most, most);
    *difference =
        (int16_t)mct_clamp(*difference - delta, -MCT_DIFFERENCE_LIMIT, MCT_DIFFERENCE_LIMIT);
}

void mct_update_biases_s32(const mct_updater *u, const int32_t *sums, int32_t first,
                           int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_bias(u, (mct_fitted_sum){sums[j], 0}, first + j);
    }
}

void mct_update_biases_wide_s32(const mct_updater *u, const int64_t *sums, int32_t first,
                                int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_bias(u, mct_fit_sum_s16(sums[j]), first + j);
    }
}

void mct_update_biases_s16(const mct_updater *u, const int32_t *sums, int32_t first,
                           int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_difference(u, (mct_fitted_sum){sums[j], 0}, first + j);
    }
}

void mct_update_biases_wide_s16(const mct_updater *u, const int64_t *sums, int32_t first,
                                int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        mct_update_difference(u, mct_fit_sum_s16(sums[j]), first + j);
    }
}

void mct_accumulate_s32(const mct_step *step, const int32_t *sums, int32_t count, int32_t *total) {
    for (int32_t j = 0; j < count; j++) {
        total[j] = mct_accumulated(step, sums[j], total[j]);
    }
}

void mct_accumulate_wide_s32(const mct_sum_rule *rule, const mct_step *step, const int64_t *sums,
                             int32_t first, int32_t count, int32_t *total) {
    const uint32_t key = mct_node_key(step->key, rule->salt);
    const int32_t bits = rule->dropped_bits;
    const int32_t mask = (1 << bits) - 1;
    for (int32_t j = 0; j < count; j++) {
        const int32_t r = bits > 0 ? mct_random16(key, (uint32_t)(first + j)) & mask : 0;
        total[j] = mct_accumulated(step, mct_saturate32((sums[j] + r) >> bits), total[j]);
    }
}
