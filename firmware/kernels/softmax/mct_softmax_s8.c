#include "mct_softmax.h"

#include "mct_fixedpoint.h"

#define MCT_DIFF_INTEGER_BITS 5
#define MCT_SUM_INTEGER_BITS 12
#define MCT_QUARTER_BITS (31 - MCT_DIFF_INTEGER_BITS - 2)

/* exp(a) in Q0.31 for -1/4 <= a < 0 in Q0.31: a polynomial around -1/8. */
static int32_t mct_exp_near_zero(int32_t a) {
    const int32_t x = a + (1 << 28);
    const int32_t x2 = mct_high_mul(x, x);
    const int32_t x3 = mct_high_mul(x2, x);
    const int32_t x4 = mct_high_mul(x2, x2);
    const int32_t cubic = mct_high_mul(mct_rounding_shift(x4, 2) + x3, 715827883);
    const int32_t tail = mct_rounding_shift(cubic + x2, 1);
    return 1895147668 + mct_high_mul(x + tail, 1895147668);
}

/* exp(a) in Q0.31 for a <= 0 in Q5.26: exp of the last quarter, times exp(-2^k) for the rest. */
static int32_t mct_exp_negative(int32_t a) {
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
static int32_t mct_reciprocal(uint32_t sum, int32_t *headroom) {
    *headroom = 32 - mct_bit_length64(sum);
    const int32_t fraction = (int32_t)((sum << *headroom) - (UINT32_C(1) << 31));
    const int32_t half = (int32_t)(((int64_t)fraction + INT32_MAX + 1) >> 1);
    int32_t x = 1515870810 + mct_high_mul(half, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        x += mct_high_mul(x, (1 << 29) - mct_high_mul(half, x)) * 4;
    }
    return (int32_t)mct_clamp64((int64_t)x * 2, INT32_MIN, INT32_MAX);
}

static void mct_softmax_row(const mct_softmax_s8_params *p, int32_t exponent, const int8_t *x,
                            int8_t *y) {
    const int32_t left_shift = p->left_shift + exponent;
    const int32_t diff_min = -(-p->diff_min >> exponent);
    int32_t largest = x[0];
    for (int32_t c = 1; c < p->classes; c++) {
        largest = mct_max(largest, x[c]);
    }
    uint32_t sum = 0;
    for (int32_t c = 0; c < p->classes; c++) {
        const int32_t diff = x[c] - largest;
        if (diff >= diff_min) {
            const int32_t scaled =
                mct_high_mul((int32_t)((uint32_t)diff << left_shift), p->mult_q31);
            sum += (uint32_t)mct_rounding_shift(mct_exp_negative(scaled), MCT_SUM_INTEGER_BITS);
        }
    }
    int32_t headroom;
    const int32_t factor = mct_reciprocal(sum, &headroom);
    const int32_t shift = MCT_SUM_INTEGER_BITS - headroom + 31 - 8;
    for (int32_t c = 0; c < p->classes; c++) {
        const int32_t diff = x[c] - largest;
        int32_t probability = 0;
        if (diff >= diff_min) {
            const int32_t scaled =
                mct_high_mul((int32_t)((uint32_t)diff << left_shift), p->mult_q31);
            probability = mct_rounding_shift(mct_high_mul(factor, mct_exp_negative(scaled)), shift);
        }
        y[c] = (int8_t)mct_clamp(probability - 128, -128, 127);
    }
}

void mct_softmax_s8(const mct_softmax_s8_params *p, const int8_t *x, const mct_exponent *x_exponent,
                    int8_t *y) {
    const int32_t exponent =
        x_exponent != NULL ? mct_clamp(x_exponent->now, 0, p->exponent_limit) : 0;
    for (int32_t row = 0; row < p->rows; row++) {
        mct_softmax_row(p, exponent, x + row * p->classes, y + row * p->classes);
    }
}
