/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_schedule.h"

#include "mct_fixedpoint.h"

mct_learning_rate mct_rate_times(mct_learning_rate rate, int32_t fraction_q31) {
    rate.mult_q31 = mct_high_mul(rate.mult_q31, fraction_q31);
    while (rate.mult_q31 != 0 && rate.mult_q31 < (1 << 30)) {
        rate.mult_q31 *= 2;
        rate.shift--;
    }
    return rate;
}

/* cos(pi / 2 * t) in Q30 for 0 <= t <= 1 in Q30: Chebyshev fit in t^2, error below 2^-27. */
static int64_t mct_cos_quarter_q30(int64_t t_q30) {
    static const int64_t coefficients[] = {
        -25607, 985466, -22401204, 272375386, -1324675866, 1073741824,
    };
    const int64_t square = (t_q30 * t_q30) >> 30;
    int64_t result = coefficients[0];
    for (int32_t i = 1; i < 6; i++) {
        result = coefficients[i] + ((result * square) >> 30);
    }
    return mct_clamp64(result, 0, INT64_C(1) << 30);
}

/* (1 + cos(pi * t)) / 2 = cos(pi / 2 * t)^2, as Q31. */
static int32_t mct_half_cosine_q31(int64_t t_q30) {
    const int64_t c = mct_cos_quarter_q30(t_q30);
    return (int32_t)mct_clamp64((c * c) >> 29, 0, INT32_MAX);
}

mct_learning_rate mct_schedule_cosine(mct_learning_rate base, uint32_t step, uint32_t warmup,
                                      uint32_t total) {
    if (step < warmup) {
        const uint64_t fraction = ((uint64_t)(step + 1) << 31) / warmup;
        return mct_rate_times(base, (int32_t)mct_clamp64((int64_t)fraction, 0, INT32_MAX));
    }
    const uint64_t span = total > warmup ? total - warmup : 1;
    const int64_t t_q30 = (int64_t)(((uint64_t)(step - warmup) << 30) / span);
    return mct_rate_times(base, mct_half_cosine_q31(mct_clamp64(t_q30, 0, INT64_C(1) << 30)));
}
