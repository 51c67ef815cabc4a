/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_mean_squared_error_<type> and mct_target_error_<type>: MCT_LOSS is which,
 * MCT_LOSS_PARAMS its parameters, MCT_WANTED the type of x. */
#include "mct_fixedpoint.h"
#include "mct_gradient.h"

#define MCT_ERROR_LIMIT (INT64_C(1) << 30)

/* The error of an element of channel c in steps, as Q16. */
static inline int32_t mct_error_q16(const MCT_LOSS_PARAMS *p, int32_t sum, int32_t x, int32_t c) {
    const int32_t m = p->per_channel ? c : 0;
    const int32_t right = mct_shift_right(p->y_shift[m]);
    const int64_t y = mct_scale_to_fraction(sum, p->y_mult_q31[m], right);
    const int64_t wanted = (int64_t)(x - p->x_zero_point) * p->x_step_q16;
    return (int32_t)mct_clamp64(y - wanted, -MCT_ERROR_LIMIT, MCT_ERROR_LIMIT);
}

/* What of an error the gradient is proportional to. */
static inline int32_t mct_slope_q16(const MCT_LOSS_PARAMS *p, int32_t error) {
    const int32_t limit = p->error_limit_q16;
    if (p->is_absolute) {
        return error > 0 ? limit : error < 0 ? -limit : 0;
    }
    return mct_clamp(error, -limit, limit);
}

/* The loss; *largest becomes the largest slope's size. */
static int32_t mct_mean_error(const MCT_LOSS_PARAMS *p, const int32_t *sums, const MCT_WANTED *x,
                              int32_t *largest) {
    uint64_t total = 0;
    *largest = 0;
    for (int32_t i = 0, n = 0; n < p->positions; n++) {
        for (int32_t c = 0; c < p->channels; c++, i++) {
            const int32_t error = mct_error_q16(p, sums[i], x[i], c);
            const int32_t slope = mct_slope_q16(p, error);
            const int64_t size = error < 0 ? -(int64_t)error : error;
            const int64_t steepness = slope < 0 ? -(int64_t)slope : slope;
            const int64_t twice = steepness * (2 * size - steepness);
            total += p->is_absolute ? (uint64_t)size : (uint64_t)twice >> 16;
            *largest = mct_max(*largest, (int32_t)steepness);
        }
    }
    const uint64_t mean = total / (uint64_t)((int64_t)p->positions * p->channels);
    return mean < INT32_MAX ? (int32_t)mean : INT32_MAX;
}

void MCT_LOSS(const MCT_LOSS_PARAMS *p, const mct_step *step, const int32_t *sums,
              const MCT_WANTED *x, mct_exponent *exponent, MCT_GRAD *dy, int32_t *loss_q16,
              int32_t *prediction) {
    int32_t largest;
    *loss_q16 = mct_mean_error(p, sums, x, &largest);
    *prediction = 0;
    if (p->exact) {
        const int32_t best = mct_bit_length64((uint64_t)largest) - 16 - MCT_GRAD_BITS;
        const int8_t chosen = (int8_t)best;
        *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
    } else {
        mct_exponent_begin(exponent, step);
    }
    const int64_t limit = (INT64_C(1) << MCT_GRAD_BITS) - 1;
    const uint32_t key = mct_node_key(step->key, p->salt);
    uint64_t seen = 0;
    for (int32_t i = 0, n = 0; n < p->positions; n++) {
        for (int32_t c = 0; c < p->channels; c++, i++) {
            const int32_t m = p->per_channel ? c : 0;
            const int32_t right = mct_shift_right(p->error_shift[m] - 16 - exponent->now);
            const int32_t slope = mct_slope_q16(p, mct_error_q16(p, sums[i], x[i], c));
            const int64_t fraction = mct_scale_to_fraction(slope, p->error_mult_q31[m], right);
            seen |= (uint64_t)(fraction ^ (fraction >> 63));
            const int64_t rounded =
                (fraction + mct_random16(key, (uint32_t)i)) >> MCT_FRACTION_BITS;
            dy[i] = (MCT_GRAD)mct_clamp64(rounded, -limit, limit);
        }
    }
    if (!p->exact) {
        mct_exponent_observe(exponent, seen, MCT_GRAD_BITS);
    }
}
