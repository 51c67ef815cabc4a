/* SPDX-License-Identifier: Apache-2.0 */
/* What recurrent kernels share: sigmoid and tanh of int16 as gemmlowp has them, and sums of a gate.
 * mcutrain/ops/recurrent.py is the same in numpy. */
#ifndef MCT_RECURRENT_H
#define MCT_RECURRENT_H

#include "mct_fixedpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_GATE_INTEGER_BITS 3

static inline int32_t mct_saturate16(int32_t x) {
    return mct_clamp(x, INT16_MIN, INT16_MAX);
}

/* a * b / 2^15, rounded half up. */
static inline int32_t mct_high_mul16(int32_t a, int32_t b) {
    return (a * b + (1 << 14)) >> 15;
}

/* exp(a) in Q0.15 for a <= 0, int16 with integer_bits (0 to 7) before the point. */
static inline int32_t mct_exp_negative16(int32_t a, int32_t integer_bits) {
    static const int16_t exp_of_powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};
    if (a == 0) {
        return INT16_MAX;
    }
    const int32_t fraction = 15 - integer_bits;
    if (integer_bits > 5 && a < -(32 << fraction)) {
        return 0;
    }
    const int32_t quarter = 1 << (fraction - 2);
    const int32_t reduced = (a & (quarter - 1)) - quarter;
    const int32_t x = reduced * (1 << integer_bits) + (1 << 12);
    const int32_t x2 = mct_high_mul16(x, x);
    const int32_t x3 = mct_high_mul16(x2, x);
    const int32_t x4 = mct_high_mul16(x2, x2);
    const int32_t cubic = mct_high_mul16(mct_rounding_shift(x4, 2) + x3, 10923);
    const int32_t tail = mct_rounding_shift(cubic + x2, 1);
    int32_t result = mct_saturate16(28918 + mct_high_mul16(x + tail, 28918));
    const int32_t rest = (reduced - a) >> (fraction - 2);
    for (int32_t k = 0; k < mct_min(integer_bits + 2, 7); k++) {
        if ((rest >> k) & 1) {
            result = mct_high_mul16(result, exp_of_powers[k]);
        }
    }
    return result;
}

/* 2 / (1 + a) in Q2.13 for a in Q0.15, 0 <= a < 1: Newton's method. */
static inline int32_t mct_reciprocal16(int32_t a) {
    const int32_t half = (a + INT16_MAX + 1) >> 1;
    int32_t x = 23130 + mct_high_mul16(half, -15420);
    for (int32_t i = 0; i < 3; i++) {
        x += mct_saturate16(mct_high_mul16(x, (1 << 13) - mct_high_mul16(half, x)) * 4);
    }
    return x;
}

/* 1 / (1 + exp(-a)) in Q0.15 for a in Q3.12. */
static inline int32_t mct_sigmoid16(int32_t a) {
    if (a == 0) {
        return 1 << 14;
    }
    const int32_t e = mct_exp_negative16(a < 0 ? a : -a, MCT_GATE_INTEGER_BITS);
    const int32_t positive = mct_saturate16(mct_reciprocal16(e) * 2);
    return a > 0 ? positive : INT16_MAX - positive;
}

/* tanh(a) in Q0.15 for int16 with integer_bits (0 to 6) before the point. */
static inline int32_t mct_tanh16(int32_t a, int32_t integer_bits) {
    if (a == 0) {
        return 0;
    }
    const int32_t e = mct_exp_negative16(a < 0 ? a : -a, integer_bits + 1);
    const int32_t t = mct_saturate16((mct_reciprocal16(e) - (1 << 13)) * 4);
    return a < 0 ? -t : t;
}

/* sum (x - zero_point) * w */
static inline int32_t mct_row_sum(const int8_t *x, int32_t zero_point, const int8_t *w,
                                  int32_t count) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (x[i] - zero_point) * w[i];
    }
    return sum;
}

/* Like mct_row_sum, for a state; NULL stands for one of zeros. */
static inline int32_t mct_state_sum(const int8_t *h, int32_t zero_point, const int8_t *u,
                                    int32_t units) {
    return h == NULL ? 0 : mct_row_sum(h, zero_point, u, units);
}

/* A sum as Q3.12. One that is too large for it saturates first: what comes of it is beyond int16. */
static inline int32_t mct_scale_gate(int32_t sum, int32_t mult_q31, int32_t shift) {
    const int32_t limit = INT32_MAX >> mct_max(shift, 0);
    return mct_requantize_q31(mct_clamp(sum, -limit, limit), mult_q31, shift);
}

/* Beyond it a second part saturates the sum of 16 bits, whatever the first is. */
#define MCT_GATE_REACH 65536

/* A gate's sum, Q3.12, of its parts of x and of the state. */
static inline int32_t mct_gate_sum(int32_t of_x, int32_t of_h) {
    return mct_saturate16(mct_saturate16(of_x) + mct_clamp(of_h, -MCT_GATE_REACH, MCT_GATE_REACH));
}

static inline void mct_clear_state(int16_t *state, int32_t units) {
    for (int32_t k = 0; k < units; k++) {
        state[k] = 0;
    }
}

static inline void mct_keep_state(int16_t *to, const int16_t *state, int32_t units) {
    for (int32_t k = 0; k < units; k++) {
        to[k] = state[k];
    }
}

static inline void mct_copy_state(int8_t *to, const int8_t *from, int32_t units) {
    for (int32_t k = 0; k < units; k++) {
        to[k] = from[k];
    }
}

/* Derivatives on their way back through the steps are int32, with so many bits behind the last bit
 * of dy (MCT_BACK_BITS), and saturate here. */
#define MCT_BACK_LIMIT (INT32_C(1) << 30)

static inline int32_t mct_back_limited(int64_t d) {
    return (int32_t)mct_clamp64(d, -MCT_BACK_LIMIT, MCT_BACK_LIMIT);
}

/* d times a factor in Q0.15, |d| <= 2^30, |factor| < 2^16 */
static inline int32_t mct_back(int32_t d, int32_t factor) {
    return (int32_t)(((int64_t)d * factor + (1 << 14)) >> 15);
}

/* The derivatives of a sigmoid and of a tanh, Q0.15, from their values. */
static inline int32_t mct_sigmoid_slope(int32_t s) {
    return (s * ((1 << 15) - s)) >> 15;
}

static inline int32_t mct_tanh_slope(int32_t t) {
    return (1 << 15) - ((t * t) >> 15);
}

#ifdef __cplusplus
}
#endif

#endif
