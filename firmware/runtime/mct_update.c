/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_update.h"

#include <string.h>

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_residual.h"

#if defined(__GNUC__)
#define MCT_INLINE inline __attribute__((always_inline))
#define MCT_APART __attribute__((noinline))
#define MCT_ALIGNED(pointer) __builtin_assume_aligned(pointer, 4)
#else
#define MCT_INLINE inline
#define MCT_APART
#define MCT_ALIGNED(pointer) (pointer)
#endif

mct_updater mct_update_begin(const mct_parameter *parameter, const mct_step *step,
                             const mct_exponent *dy_exponent, int32_t dropped_bits) {
    return (mct_updater){
        .parameter = parameter,
        .step = step,
        .key = mct_node_key(step->key, parameter->salt),
        .exponent = dy_exponent->now + dropped_bits,
        .sum_bits = 31,
    };
}

mct_updater mct_update_begin_s8(const mct_parameter *parameter, const mct_step *step,
                                const mct_exponent *dy_exponent, int32_t positions) {
    mct_updater u = mct_update_begin(parameter, step, dy_exponent, MCT_DROPPED_BITS_S8);
    /* 127 * 255 < 2^15 */
    u.sum_bits = mct_min(15 + mct_bit_length64((uint64_t)positions - 1u), 31);
    return u;
}

mct_updater mct_update_begin_s16(const mct_parameter *parameter, const mct_step *step,
                                 const mct_exponent *dy_exponent, int32_t positions) {
    mct_updater u = mct_update_begin(parameter, step, dy_exponent, MCT_DROPPED_BITS_S16);
    /* 2^15 * 255 < 2^23 */
    u.sum_bits = mct_min(23 + mct_bit_length64((uint64_t)positions - 1u), 31);
    u.kept_bits = MCT_DROPPED_BITS_S16;
    return u;
}

/* Of sums that still have kept_bits of what others lack. */
static inline mct_rate mct_rate_of(const mct_updater *u, int32_t channel, int32_t kept_bits) {
    const mct_parameter *parameter = u->parameter;
    const int32_t c = parameter->per_channel ? channel : 0;
    const int32_t shift = parameter->shift[c] + u->step->lr_shift + u->exponent - kept_bits;
    const int32_t bits = mct_shift_right_finer(shift, kept_bits) - MCT_FRACTION_BITS;
    return (mct_rate){
        .mult_q31 = mct_high_mul(parameter->mult_q31[c], u->step->lr_mult_q31),
        .left = mct_max(32 - bits, 0),
        .right = mct_max(bits - 32, 0),
    };
}

mct_rate mct_update_rate(const mct_updater *u, int32_t c) {
    return mct_rate_of(u, c, u->kept_bits);
}

/* What to subtract, before its limit. Where sum * 2^left fits int32 the high half of its product is the
 * fraction: processors of 32 bits have an instruction for that, while a shift of 64 bits takes them many. */
static inline int32_t mct_delta(const mct_updater *u, const mct_rate *rate, int32_t sum,
                                int32_t index) {
    const int32_t left = rate->left, random = mct_random16(u->key, (uint32_t)index);
    const int32_t moved = (int32_t)((uint32_t)sum << (left & 31));
    if (left < 32 && moved >> left == sum) {
        const int32_t fraction = mct_high_half(moved, rate->mult_q31) >> rate->right;
        return (fraction + random) >> MCT_FRACTION_BITS;
    }
    const int64_t fraction = ((int64_t)sum * rate->mult_q31) >> (32 - left + rate->right);
    return mct_saturate32((fraction + random) >> MCT_FRACTION_BITS);
}

/* Whether a sum of INT32_MAX or INT32_MIN moves a weight by its limit, whatever its residual bits: then
 * the fraction is half of the rate. */
static inline int mct_is_large(int32_t mult_q31) {
    const int64_t large = (int64_t)(2 * MCT_STEP_LIMIT << 8) << (MCT_FRACTION_BITS + 1);
    return mult_q31 == 0 || mult_q31 >= large || mult_q31 <= -large;
}

/* A weight and the place of its residual, as the first of a row. */
typedef struct {
    int8_t *w;
    uint8_t *residual;
    int32_t at, bits; /* of the residuals, packed as mct_residual.h says */
} mct_weight;

/* nothing: has the place of residuals where there are none. */
static inline mct_weight mct_weight_of(const mct_parameter *parameter, int32_t index,
                                       uint8_t *nothing) {
    const int32_t bits = parameter->residual_bits;
    return (mct_weight){(int8_t *)parameter->values + index,
                        bits > 0 ? parameter->residual : nothing, index * bits, bits};
}

/* Subtracts delta, which is in units of the residual's last bit; |delta| <= 2^22. In units of 2^-8 all
 * limits are constants. */
static MCT_INLINE void mct_move(mct_weight weight, int32_t delta) {
    uint8_t *place = weight.residual + (weight.at >> 3);
    const int32_t byte = *place, low = weight.at & 7, finer = 8 - weight.bits;
    const int32_t rest = (1 << weight.bits) - 1;
    const int32_t old = *weight.w * 256 + (((byte >> low) & rest) << finer);
    const int32_t by = mct_clamp(delta * (1 << finer), -256 * MCT_STEP_LIMIT, 256 * MCT_STEP_LIMIT);
    const int32_t updated = mct_clamp(old - by, -127 * 256, 128 * 256 - 1);
    *weight.w = (int8_t)(updated >> 8);
    *place = (uint8_t)((byte & ~(rest << low)) | ((updated & 255) >> finer) << low);
}

static MCT_APART void mct_update_any(const mct_updater *u, const mct_rate *rate, int32_t sum,
                                     int32_t index) {
    uint8_t nothing = 0;
    const int32_t most = INT32_C(1) << 22;
    const int32_t delta = mct_clamp(mct_delta(u, rate, sum, index), -most, most);
    mct_move(mct_weight_of(u->parameter, index, &nothing), delta);
}

/* saturates: where sum * 2^left does not fit int32 it is its largest or smallest, and the weight moves by
 * its limit. */
static MCT_INLINE void mct_update_short(const mct_updater *u, const mct_rate *rate, int32_t factor,
                                        const int32_t *sums, int32_t first, int32_t count,
                                        int32_t stride, int saturates) {
    const int32_t mult_q31 = rate->mult_q31, right = rate->right, left = rate->left;
    const int32_t scale = saturates ? factor : factor * (1 << left);
    const int32_t largest = left < 31 ? INT32_MAX >> left : 0;
    uint32_t counter = (uint32_t)first * MCT_RANDOM_STEP + u->key;
    uint8_t nothing = 0;
    mct_weight weight = mct_weight_of(u->parameter, first, &nothing);
    for (const int32_t *end = sums + count; sums < end; sums++) {
        int32_t delta = 0; /* of a sum of 0, since the random number is less than 1 */
        if (*sums != 0) {
            int32_t moved = *sums * scale;
            if (saturates) {
                moved = moved > largest    ? INT32_MAX
                        : moved < -largest ? INT32_MIN
                                           : (int32_t)((uint32_t)moved << (left & 31));
            }
            const int32_t fraction = mct_high_half(moved, mult_q31) >> right;
            delta = (fraction + (int32_t)(mct_hash32(counter) >> 16)) >> MCT_FRACTION_BITS;
        }
        if (delta != 0 || *weight.w == -128) { /* -128, with which a model may come, becomes -127 */
            mct_move(weight, delta);
        }
        counter += (uint32_t)stride * MCT_RANDOM_STEP;
        weight.w += stride;
        weight.at += stride * weight.bits;
    }
}

void mct_update_scaled_s8(const mct_updater *u, const mct_rate *rate, int32_t factor,
                          const int32_t *sums, int32_t first, int32_t count) {
    if (rate->left + u->sum_bits <= 31) {
        mct_update_short(u, rate, factor, sums, first, count, 1, 0);
    } else if (mct_is_large(rate->mult_q31)) {
        mct_update_short(u, rate, factor, sums, first, count, 1, 1);
    } else {
        for (int32_t j = 0; j < count; j++) {
            mct_update_any(u, rate, factor * sums[j], first + j);
        }
    }
}

void mct_update_apart_s8(const mct_updater *u, const mct_rate *rate, const int32_t *sums,
                         int32_t first, int32_t count, int32_t stride) {
    if (rate->left + u->sum_bits <= 31) {
        mct_update_short(u, rate, 1, sums, first, count, stride, 0);
    } else if (mct_is_large(rate->mult_q31)) {
        mct_update_short(u, rate, 1, sums, first, count, stride, 1);
    } else {
        for (int32_t j = 0; j < count; j++) {
            mct_update_any(u, rate, sums[j], first + j * stride);
        }
    }
}

/* Whether one of four int8 is -128. */
static inline int mct_has_lowest(uint32_t four) {
    const uint32_t moved = four ^ UINT32_C(0x80808080);
    return ((moved - UINT32_C(0x01010101)) & ~moved & UINT32_C(0x80808080)) != 0;
}

void mct_update_nothing_s8(const mct_updater *u, int32_t first, int32_t count) {
    uint8_t nothing = 0;
    const int32_t end = first + count;
    const int8_t *values = u->parameter->values;
    for (int32_t i = first; i < end; i++) {
        for (; (uintptr_t)(values + i) % 4 == 0 && i + 4 <= end; i += 4) {
            uint32_t four;
            memcpy(&four, MCT_ALIGNED(values + i), sizeof four);
            if (mct_has_lowest(four)) {
                break;
            }
        }
        if (i < end && values[i] == -128) {
            mct_move(mct_weight_of(u->parameter, i, &nothing), 0);
        }
    }
}

void mct_update_row_s8(const mct_updater *u, int32_t c, const int32_t *sums, int32_t first,
                       int32_t count) {
    const mct_rate rate = mct_rate_of(u, c, 0);
    mct_update_scaled_s8(u, &rate, 1, sums, first, count);
}

void mct_update_channels_s8(const mct_updater *u, const int32_t *sums, int32_t first,
                            int32_t count) {
    const int8_t *w = (const int8_t *)u->parameter->values + first;
    for (int32_t j = 0; j < count; j++) {
        if (sums[j] != 0 || w[j] == -128) {
            const mct_rate rate = mct_rate_of(u, j, 0);
            mct_update_any(u, &rate, sums[j], first + j);
        }
    }
}

void mct_update_row_wide_s8(const mct_updater *u, int32_t c, const int64_t *sums, int32_t first,
                            int32_t count) {
    const mct_rate exact = mct_rate_of(u, c, MCT_DROPPED_BITS_S16);
    const mct_rate narrow = mct_rate_of(u, c, 0);
    for (int32_t j = 0; j < count; j++) {
        const mct_fitted_sum sum = mct_fit_sum_s16(sums[j]);
        mct_update_any(u, sum.kept_bits > 0 ? &exact : &narrow, sum.value, first + j);
    }
}

void mct_update_channels_wide_s8(const mct_updater *u, const int64_t *sums, int32_t first,
                                 int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        const mct_fitted_sum sum = mct_fit_sum_s16(sums[j]);
        const mct_rate rate = mct_rate_of(u, j, sum.kept_bits);
        mct_update_any(u, &rate, sum.value, first + j);
    }
}

static inline int32_t mct_accumulated(const mct_step *step, int32_t sum, int32_t total) {
    const int64_t added = step->sample == 0 ? sum : (int64_t)total + sum;
    return (int32_t)mct_clamp64(added, INT32_MIN, INT32_MAX);
}

static inline void mct_update_bias(const mct_updater *u, mct_fitted_sum sum, int32_t c) {
    int32_t *b = (int32_t *)u->parameter->values + c;
    const mct_rate rate = mct_rate_of(u, c, sum.kept_bits);
    const int32_t delta =
        mct_clamp(mct_delta(u, &rate, sum.value, c), -MCT_BIAS_STEP_LIMIT, MCT_BIAS_STEP_LIMIT);
    *b = (int32_t)mct_clamp64((int64_t)*b - delta, -MCT_BIAS_LIMIT, MCT_BIAS_LIMIT);
}

static inline void mct_update_difference(const mct_updater *u, mct_fitted_sum sum, int32_t c) {
    int16_t *difference = (int16_t *)u->parameter->values + c;
    const int32_t most = MCT_BIAS_STEP_LIMIT >> -u->parameter->residual_bits;
    const mct_rate rate = mct_rate_of(u, c, sum.kept_bits);
    const int32_t delta = mct_clamp(mct_delta(u, &rate, sum.value, c), -most, most);
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
