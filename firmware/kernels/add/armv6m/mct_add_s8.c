/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_any.h"
#include "mct_tiled.h"

/* An operand by two products of 32 bits.
 *
 * v = (d * mult_q31 * 2^left_shift + 2^30) >> 31 for d = value - zero_point is (d * mult_q31 + half) >>
 * bits with bits = 31 - left_shift. The upper 16 bits of mult_q31 by d need no rounding if bits <= 16. */
typedef struct {
    int32_t zero_point;
    int32_t high, low;   /* of mult_q31 */
    int32_t bits, half;  /* 2^(bits - 1) */
    int32_t right, last; /* -shift, 2^(right - 1) if there is a second rounding */
    int32_t signs;       /* then -1: halves away from zero */
} mct_add_operand;

static int mct_add_is_short(const mct_scaled *scaled, int32_t left_shift) {
    return left_shift >= 15 && left_shift <= 22 && scaled->shift <= 0 && scaled->shift >= -30;
}

static inline mct_add_operand mct_add_operand_of(const mct_scaled *scaled, int32_t left_shift) {
    const int32_t bits = 31 - left_shift;
    return (mct_add_operand){
        .zero_point = scaled->zero_point,
        .high = scaled->mult_q31 >> 16,
        .low = scaled->mult_q31 & 0xFFFF,
        .bits = bits,
        .half = 1 << (bits - 1),
        .right = -scaled->shift,
        .last = scaled->shift < 0 ? 1 << (-scaled->shift - 1) : 0,
        .signs = scaled->shift < 0 ? -1 : 0,
    };
}

static MCT_ALWAYS_INLINE int32_t mct_add_scaled(const mct_add_operand *of, int32_t value) {
    const int32_t d = value - of->zero_point;
    const int32_t v =
        d * of->high * (1 << (16 - of->bits)) + ((d * of->low + of->half) >> of->bits);
    return (v + of->last + ((v >> 31) & of->signs)) >> of->right;
}

/* Any shifts. */
static MCT_APART void mct_add_plain(const mct_add_s8_params *p, const int8_t *a, const int8_t *b,
                                    int8_t *y, uint8_t *mask) {
    mct_add_any(p, a, b, y, mask);
}

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    const int32_t right = -p->y.shift;
    if (!mct_add_is_short(&p->a, p->left_shift) || !mct_add_is_short(&p->b, p->left_shift) ||
        right < 1 || right > 30) {
        mct_add_plain(p, a, b, y, mask);
        return;
    }
    const mct_add_operand of_a = mct_add_operand_of(&p->a, p->left_shift);
    const mct_add_operand of_b = mct_add_operand_of(&p->b, p->left_shift);
    const int32_t last = 1 << (right - 1);
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t sum = mct_add_scaled(&of_a, a[i]) + mct_add_scaled(&of_b, b[i]);
        const int32_t v = mct_high_mul(sum, p->y.mult_q31);
        const int32_t value = ((v + last + (v >> 31)) >> right) + p->y.zero_point;
        mct_clamp_store(value, p->low, p->high, i, y, mask);
    }
}
