/* SPDX-License-Identifier: Apache-2.0 */
/* One row of probabilities in integers: what the softmax and its gradient share. */
#ifndef MCT_SOFTMAX_ROW_H
#define MCT_SOFTMAX_ROW_H

#include "mct_fixedpoint.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_DIFF_INTEGER_BITS 5
#define MCT_SUM_INTEGER_BITS 12
#define MCT_PROBABILITY_BITS 15 /* in the gradient */
#define MCT_QUARTER_BITS (31 - MCT_DIFF_INTEGER_BITS - 2)

/* exp(a) in Q0.31 for -1/4 <= a < 0 in Q0.31: a polynomial around -1/8. */
static inline int32_t mct_exp_near_zero(int32_t a) {
    const int32_t x = a + (1 << 28);
    const int32_t x2 = mct_high_mul(x, x);
    const int32_t x3 = mct_high_mul(x2, x);
    const int32_t x4 = mct_high_mul(x2, x2);
    const int32_t cubic = mct_high_mul(mct_rounding_shift(x4, 2) + x3, 715827883);
    const int32_t tail = mct_rounding_shift(cubic + x2, 1);
    return 1895147668 + mct_high_mul(x + tail, 1895147668);
}

/* exp(a) in Q0.31 for a <= 0 in Q5.26: exp of the last quarter, times exp(-2^k) for the rest. */
static inline int32_t mct_exp_negative(int32_t a) {
    static const int32_t exp_of_powers[] = {1672461947, 1302514674, 790015084, 290630308,
                                            39332535,   720401,     242};
    if (a == 0) {
        return INT32_MAX;
    }
    const int32_t quarter = 1 << MCT_QUARTER_BITS;
    const int32_t reduced = (a & (quarter - 1)) - quarter;
    const int32_t rest = (reduced - a) >> MCT_QUARTER_BITS;
    int32_t result = mct_exp_near_zero(reduced * (1 << MCT_DIFF_INTEGER_BITS));
    for (int32_t k = 0; k < 7; k++) {
        if ((rest >> k) & 1) {
            result = mct_high_mul(result, exp_of_powers[k]);
        }
    }
    return result;
}

/* 1 / sum in Q0.31 after the sum, in Q12.19, was shifted left by *headroom: Newton's method. */
static inline int32_t mct_reciprocal(uint32_t sum, int32_t *headroom) {
    *headroom = 32 - mct_bit_length64(sum);
    const int32_t fraction = (int32_t)((sum << *headroom) - (UINT32_C(1) << 31));
    const int32_t half = (int32_t)(((int64_t)fraction + INT32_MAX + 1) >> 1);
    int32_t x = 1515870810 + mct_high_mul(half, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        x += mct_high_mul(x, (1 << 29) - mct_high_mul(half, x)) * 4;
    }
    return (int32_t)mct_clamp64((int64_t)x * 2, INT32_MIN, INT32_MAX);
}

/* What turns the exponentials of a row into probabilities. */
typedef struct {
    int32_t largest, mult_q31, left_shift, diff_min;
    int32_t factor, headroom;
} mct_softmax_row;

/* exp of a difference to the largest, in Q0.31; 0 below diff_min. Kept in one place: it is long. */
static __attribute__((noinline)) int32_t mct_softmax_exp(const mct_softmax_row *row, int32_t x) {
    const int32_t diff = x - row->largest;
    if (diff < row->diff_min) {
        return 0;
    }
    return mct_exp_negative(
        mct_high_mul((int32_t)((uint32_t)diff << row->left_shift), row->mult_q31));
}

static inline mct_softmax_row mct_softmax_begin(const int8_t *x, int32_t classes, int32_t mult_q31,
                                                int32_t left_shift, int32_t diff_min) {
    mct_softmax_row row = {x[0], mult_q31, left_shift, diff_min, 0, 0};
    for (int32_t c = 1; c < classes; c++) {
        row.largest = mct_max(row.largest, x[c]);
    }
    uint32_t sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        sum += (uint32_t)mct_rounding_shift(mct_softmax_exp(&row, x[c]), MCT_SUM_INTEGER_BITS);
    }
    row.factor = mct_reciprocal(sum, &row.headroom);
    return row;
}

/* A probability in units of 2^-bits. Of more than 2^bits classes alike, each is next to nothing. */
static inline int32_t mct_softmax_probability(const mct_softmax_row *row, int32_t x, int32_t bits) {
    const int32_t shift = MCT_SUM_INTEGER_BITS - row->headroom + 31 - bits;
    if (shift > 31) {
        return 0; /* less than half a unit, by a shift that int32 does not have */
    }
    return mct_rounding_shift(mct_high_mul(row->factor, mct_softmax_exp(row, x)), shift);
}

#ifdef __cplusplus
}
#endif

#endif
