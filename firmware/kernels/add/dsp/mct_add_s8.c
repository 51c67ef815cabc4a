/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_any.h"
#include "mct_dsp_add.h"
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

/* The same with away: 1: there are bits; 0: none. */
static inline int32_t mct_add_rounded(const mct_add_factor *factor, int32_t twice, int away) {
    const int32_t v = mct_add_high_product(factor->half, twice, factor->mult_q31);
    return away ? (v + (twice >> 31)) >> factor->bits : v;
}

/* Whether no sum of two operands reaches 2^30 and no half overflows. */
static int mct_add_is_short(const mct_add_s8_params *p) {
    const int32_t least = -20;
    return p->left_shift <= 20 && p->a.shift <= 0 && p->b.shift <= 0 && p->y.shift <= 0 &&
           p->a.shift >= least && p->b.shift >= least && p->y.shift >= least;
}

/* Elements at a time: a multiple of 8. */
#define MCT_ADD_BLOCK 32

/* sums[i] = an operand, requantized, or plus it, `count` times. */
static inline __attribute__((always_inline)) void
mct_add_operand_to(const mct_scaled *scaled, int32_t left_shift, const int8_t *x, int32_t count,
                   int32_t *sums, int plus, int away) {
    const mct_add_factor factor = mct_add_factor_of(scaled);
    const int32_t twice = 2 << left_shift;
    const int32_t start = -scaled->zero_point * twice;
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const int32_t a = mct_add_rounded(&factor, start + x[i] * twice, away);
        const int32_t b = mct_add_rounded(&factor, start + x[i + 1] * twice, away);
        const int32_t c = mct_add_rounded(&factor, start + x[i + 2] * twice, away);
        const int32_t d = mct_add_rounded(&factor, start + x[i + 3] * twice, away);
        sums[i] = plus ? sums[i] + a : a;
        sums[i + 1] = plus ? sums[i + 1] + b : b;
        sums[i + 2] = plus ? sums[i + 2] + c : c;
        sums[i + 3] = plus ? sums[i + 3] + d : d;
    }
    for (; i < count; i++) {
        const int32_t a = mct_add_rounded(&factor, start + x[i] * twice, away);
        sums[i] = plus ? sums[i] + a : a;
    }
}

static void mct_add_operand(const mct_scaled *scaled, int32_t left_shift, const int8_t *x,
                            int32_t count, int32_t *sums) {
    if (scaled->shift != 0) {
        mct_add_operand_to(scaled, left_shift, x, count, sums, 0, 1);
    } else {
        mct_add_operand_to(scaled, left_shift, x, count, sums, 0, 0);
    }
}

static void mct_add_plus_operand(const mct_scaled *scaled, int32_t left_shift, const int8_t *x,
                                 int32_t count, int32_t *sums) {
    if (scaled->shift != 0) {
        mct_add_operand_to(scaled, left_shift, x, count, sums, 1, 1);
    } else {
        mct_add_operand_to(scaled, left_shift, x, count, sums, 1, 0);
    }
}

/* Eight sums for int8's own limits; the bits of those that do not saturate. */
static inline __attribute__((always_inline)) uint32_t mct_add_eight(const mct_add_factor *factor,
                                                                    int32_t zero_point,
                                                                    const int32_t *sums,
                                                                    int8_t *y) {
    uint32_t passes = 0;
    for (int32_t i = 0; i < 8; i++) {
        const int32_t value = mct_add_rounded(factor, 2 * sums[i], 1) + zero_point;
        const int32_t clamped = mct_saturate8(value);
        y[i] = (int8_t)clamped;
        passes |= value == clamped ? 1u << i : 0;
    }
    return passes;
}

/* The sums, requantized. mask: the block's first byte, or NULL. */
static void mct_add_results(const mct_add_s8_params *p, const int32_t *sums, int32_t count,
                            int8_t *y, uint8_t *mask) {
    const mct_add_factor factor = mct_add_factor_of(&p->y);
    const int32_t zero_point = p->y.zero_point, low = p->low, high = p->high;
    int32_t done = 0;
    if (low == -128 && high == 127 && factor.bits > 0) {
        for (; mask != NULL && done + 8 <= count; done += 8) {
            mask[done >> 3] = (uint8_t)mct_add_eight(&factor, zero_point, sums + done, y + done);
        }
        for (; done + 8 <= count; done += 8) {
            (void)mct_add_eight(&factor, zero_point, sums + done, y + done);
        }
    }
    uint32_t passes = 0;
    for (int32_t i = done; i < count; i++) {
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

/* Whether an operand, requantized, is half of what it was: that of the larger scale is, as a rule. */
static int mct_add_is_whole(const mct_scaled *scaled) {
    return scaled->mult_q31 == 1 << 30 && scaled->shift == 0;
}

/* The first elements in one pass, where it takes them: returns how many these are, a multiple of 4. */
static int32_t mct_add_at_once(const mct_add_s8_params *p, const int8_t *a, const int8_t *b,
                               int8_t *y) {
    const int swapped = mct_add_is_whole(&p->b);
    const mct_scaled *whole = swapped ? &p->b : &p->a, *other = swapped ? &p->a : &p->b;
    const int32_t count = p->elements & ~3;
    if (count == 0 || p->left_shift != MCT_TILE_ADD_SHIFT || !mct_add_is_whole(whole) ||
        other->shift == 0 || p->y.shift == 0 || p->low != -128 || p->high != 127) {
        return 0;
    }
    const mct_tile_add tile = {
        .whole = swapped ? b : a,
        .other = swapped ? a : b,
        .y = y,
        .end = (swapped ? b : a) + count,
        .start = -whole->zero_point * (1 << MCT_TILE_ADD_SHIFT),
        .other_start = -other->zero_point * (2 << MCT_TILE_ADD_SHIFT),
        .other_mult_q31 = other->mult_q31,
        .other_half = 1 << (-other->shift - 1),
        .other_bits = -other->shift,
        .mult_q31 = p->y.mult_q31,
        .half = (2 * p->y.zero_point + 1) * (1 << (-p->y.shift - 1)),
        .bits = -p->y.shift - 1,
    };
    mct_tile_add_run(&tile);
    return count;
}

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    if (mct_add_is_short(p)) {
        const int32_t done = mask == NULL ? mct_add_at_once(p, a, b, y) : 0;
        for (int32_t i = done; i < p->elements; i += MCT_ADD_BLOCK) {
            int32_t sums[MCT_ADD_BLOCK];
            const int32_t count = mct_min(p->elements - i, MCT_ADD_BLOCK);
            mct_add_operand(&p->a, p->left_shift, a + i, count, sums);
            mct_add_plus_operand(&p->b, p->left_shift, b + i, count, sums);
            mct_add_results(p, sums, count, y + i, mask != NULL ? mask + i / 8 : NULL);
        }
        return;
    }
    mct_add_any(p, a, b, y, mask);
}
