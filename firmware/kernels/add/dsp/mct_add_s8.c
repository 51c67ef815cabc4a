#include "mct_add.h"
#include "mct_dsp_requantize.h"

/* A factor as mct_requantize_q31 takes it, for values below 2^30: rounded to a whole number by
 * doubling and taking the high half, then by `bits`, halves away from zero. */
typedef struct {
    int32_t mult_q31;
    int32_t bits;
    int32_t half; /* 2^(bits - 1), or 0 for no bits */
    int32_t away; /* -1: what is negative is rounded down at a half; 0 for no bits */
} mct_add_factor;

static inline mct_add_factor mct_add_factor_of(const mct_scaled *scaled) {
    const int32_t bits = -scaled->shift;
    return (mct_add_factor){
        .mult_q31 = scaled->mult_q31,
        .bits = bits,
        .half = bits > 0 ? 1 << (bits - 1) : 0,
        .away = bits > 0 ? -1 : 0,
    };
}

static inline int32_t mct_add_scaled(const mct_add_factor *factor, int32_t twice) {
    const int32_t v = mct_add_high_product(factor->half, twice, factor->mult_q31);
    return (v + (twice >> 31 & factor->away)) >> factor->bits;
}

/* Whether no sum of two operands reaches 2^30 and no half overflows. */
static int mct_add_is_short(const mct_add_s8_params *p) {
    const int32_t least = -20;
    return p->left_shift <= 20 && p->a.shift <= 0 && p->b.shift <= 0 && p->y.shift <= 0 &&
           p->a.shift >= least && p->b.shift >= least && p->y.shift >= least;
}

/* Elements at a time: a multiple of 8. */
#define MCT_ADD_BLOCK 32

/* sums[i] = an operand, requantized, `count` times. */
static void mct_add_operand(const mct_scaled *scaled, int32_t left_shift, const int8_t *x,
                            int32_t count, int32_t *sums) {
    const mct_add_factor factor = mct_add_factor_of(scaled);
    const int32_t twice = 2 << left_shift;
    const int32_t start = -scaled->zero_point * twice;
    for (int32_t i = 0; i < count; i++) {
        sums[i] = mct_add_scaled(&factor, start + x[i] * twice);
    }
}

static void mct_add_plus_operand(const mct_scaled *scaled, int32_t left_shift, const int8_t *x,
                                 int32_t count, int32_t *sums) {
    const mct_add_factor factor = mct_add_factor_of(scaled);
    const int32_t twice = 2 << left_shift;
    const int32_t start = -scaled->zero_point * twice;
    for (int32_t i = 0; i < count; i++) {
        sums[i] += mct_add_scaled(&factor, start + x[i] * twice);
    }
}

/* The sums, requantized. mask: the block's first byte, or NULL. */
static void mct_add_results(const mct_add_s8_params *p, const int32_t *sums, int32_t count,
                            int8_t *y, uint8_t *mask) {
    const mct_add_factor factor = mct_add_factor_of(&p->y);
    const int32_t zero_point = p->y.zero_point, low = p->low, high = p->high;
    if (mask == NULL && low == -128 && high == 127) {
        for (int32_t i = 0; i < count; i++) {
            y[i] = (int8_t)mct_saturate8(mct_add_scaled(&factor, 2 * sums[i]) + zero_point);
        }
        return;
    }
    uint32_t passes = 0;
    for (int32_t i = 0; i < count; i++) {
        const int32_t value = mct_add_scaled(&factor, 2 * sums[i]) + zero_point;
        const int32_t clamped = mct_clamp(value, low, high);
        y[i] = (int8_t)clamped;
        passes |= (uint32_t)(value == clamped) << (i & 7);
        if (mask != NULL && ((i & 7) == 7 || i + 1 == count)) {
            mask[i >> 3] = (uint8_t)passes;
            passes = 0;
        }
    }
}

static inline int32_t mct_operand(const mct_scaled *scaled, int32_t value, int32_t left_shift) {
    const int32_t shifted = (value - scaled->zero_point) * (1 << left_shift);
    return mct_requantize_q31(shifted, scaled->mult_q31, scaled->shift);
}

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    if (mct_add_is_short(p)) {
        for (int32_t i = 0; i < p->elements; i += MCT_ADD_BLOCK) {
            int32_t sums[MCT_ADD_BLOCK];
            const int32_t count = mct_min(p->elements - i, MCT_ADD_BLOCK);
            mct_add_operand(&p->a, p->left_shift, a + i, count, sums);
            mct_add_plus_operand(&p->b, p->left_shift, b + i, count, sums);
            mct_add_results(p, sums, count, y + i, mask != NULL ? mask + i / 8 : NULL);
        }
        return;
    }
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t sum =
            mct_operand(&p->a, a[i], p->left_shift) + mct_operand(&p->b, b[i], p->left_shift);
        const int32_t scaled = mct_requantize_q31(sum, p->y.mult_q31, p->y.shift);
        mct_clamp_store(scaled + p->y.zero_point, p->low, p->high, i, y, mask);
    }
}
