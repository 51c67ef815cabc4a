/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_any.h"
#include "mct_tiled_requantize.h"

/* An operand whose shifts are the usual ones, by one product and one shift of what it leaves. */
typedef struct {
    int32_t zero_point, mult_q31;
    int32_t right, last; /* -shift, 2^(right - 1) if there is a second rounding */
    int32_t signs;       /* then -1: halves away from zero */
} mct_add_operand;

static int mct_add_is_short(const mct_scaled *scaled) {
    return scaled->shift <= 0 && scaled->shift >= -30;
}

static inline mct_add_operand mct_add_operand_of(const mct_scaled *scaled) {
    return (mct_add_operand){
        .zero_point = scaled->zero_point,
        .mult_q31 = scaled->mult_q31,
        .right = -scaled->shift,
        .last = scaled->shift < 0 ? 1 << (-scaled->shift - 1) : 0,
        .signs = scaled->shift < 0 ? -1 : 0,
    };
}

static MCT_ALWAYS_INLINE int32_t mct_add_scaled(const mct_add_operand *of, int32_t value,
                                                int32_t left_shift) {
    const int32_t shifted = (value - of->zero_point) * (1 << left_shift);
    const int32_t v = mct_tiled_high_mul(shifted, of->mult_q31);
    return (v + of->last + ((v >> 31) & of->signs)) >> of->right;
}

/* Any shifts. */
static MCT_APART void mct_add_plain(const mct_add_s8_params *p, const int8_t *a, const int8_t *b,
                                    int8_t *y, uint8_t *mask) {
    mct_add_any(p, a, b, y, mask);
}

/* Left shifts up to 20 leave operands below 2^28 and their sum below 2^29. */
void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    if (!mct_add_is_short(&p->a) || !mct_add_is_short(&p->b) || !mct_add_is_short(&p->y) ||
        p->left_shift > 20) {
        mct_add_plain(p, a, b, y, mask);
        return;
    }
    const mct_add_operand of_a = mct_add_operand_of(&p->a), of_b = mct_add_operand_of(&p->b);
    const mct_add_operand of_y = mct_add_operand_of(&p->y);
    const int32_t left = p->left_shift, zero_point = p->y.zero_point;
    const int32_t elements = p->elements, low = p->low, high = p->high;
    for (int32_t i = 0; i < elements; i++) {
        const int32_t sum = mct_add_scaled(&of_a, a[i], left) + mct_add_scaled(&of_b, b[i], left);
        const int32_t v = mct_tiled_high_mul(sum, of_y.mult_q31);
        const int32_t scaled = (v + of_y.last + ((v >> 31) & of_y.signs)) >> of_y.right;
        mct_clamp_store(scaled + zero_point, low, high, i, y, mask);
    }
}
