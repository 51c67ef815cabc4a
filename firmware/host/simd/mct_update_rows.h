/* Weights with one rate, updated many at once: the vector form of mct_update_row_s8. */
#ifndef MCT_UPDATE_ROWS_H
#define MCT_UPDATE_ROWS_H

#include "mct_gradient_rows.h"
#include "mct_update.h"

/* The residuals of the elements first …; `first` is even, the count is MCT_LANES. */
static inline mct_v32 mct_v_residuals(const uint8_t *residual, int32_t bits, int32_t first) {
    if (bits == 8) {
        return mct_v_load_s8((const int8_t *)residual + first, MCT_LANES) & 0xFF;
    }
    mct_v32 both = {0};
    if (bits == 4) {
        mct_half_v8 bytes;
        memcpy(&bytes, residual + first / 2, sizeof bytes);
        const mct_v64 packed = __builtin_convertvector(bytes, mct_v64);
        both = (mct_v32)((packed & 15) | ((packed & 0xF0) << 28));
    }
    return both;
}

static inline void mct_v_residuals_put(uint8_t *residual, int32_t bits, int32_t first, mct_v32 r) {
    if (bits == 8) {
        mct_v_store_s8((int8_t *)residual + first, r, MCT_LANES);
    } else if (bits == 4) {
        const mct_v64 packed = (mct_v64)mct_v_even(r) | ((mct_v64)mct_v_odd(r) << 4);
        const mct_half_v8 bytes = __builtin_convertvector(packed, mct_half_v8);
        memcpy(residual + first / 2, &bytes, sizeof bytes);
    }
}

/* MCT_LANES weights, the elements first … of the trained part; `first` is even. */
static inline void mct_v_update(const mct_updater *u, const mct_v_factor *rate, const int32_t *sums,
                                int32_t first, int8_t *w, uint8_t *residual) {
    const int32_t bits = u->rule->residual_bits;
    const int32_t one = 1 << bits;
    const int64_t large = INT64_C(1) << 24; /* a step that saturates any weight */
    const mct_v_fraction f = mct_v_scale_to_fraction(rate, mct_v_load(sums));
    const mct_v32 random = mct_v_random16(u->key, mct_v_count(first));
    const mct_v32 delta = mct_v_round_fraction(f, random, -large, large);
    const mct_v32 old = mct_v_load_s8(w, MCT_LANES) * one + mct_v_residuals(residual, bits, first);
    const mct_v32 updated =
        mct_v_min(mct_v_max(old - delta, mct_v_all(-127 * one)), mct_v_all(128 * one - 1));
    mct_v_store_s8(w, updated >> bits, MCT_LANES);
    mct_v_residuals_put(residual, bits, first, updated & (one - 1));
}

/* mct_update_row_s8 for weights in a row that share the rate of channel `rate`. */
static inline void mct_update_lanes(const mct_updater *u, const int32_t *sums, int32_t first,
                                    int32_t count, int32_t rate, int8_t *w, uint8_t *residual) {
    const mct_update_rule *rule = u->rule;
    const int32_t c = rule->per_channel ? rate : 0;
    const int32_t mult = mct_high_mul(rule->mult_q31[c], u->step->lr_mult_q31);
    const int32_t right = mct_shift_right(rule->shift[c] + u->step->lr_shift + u->exponent);
    const mct_v_factor factor = mct_v_factor_of(mct_v_all(mult), mct_v_all(right));
    int32_t j = mct_min(first & 1, count);
    mct_update_row_s8(u, sums, first, j, rate, w, residual);
    for (; j + MCT_LANES <= count; j += MCT_LANES) {
        mct_v_update(u, &factor, sums + j, first + j, w + j, residual);
    }
    mct_update_row_s8(u, sums + j, first + j, count - j, rate, w + j, residual);
}

#endif
