/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_any.h"
#include "mct_helium_requantize.h"

/* A factor as mct_requantize_q31 takes it, for shifts to the right and values below 2^30. */
typedef struct {
    int32_t mult_q31, shift;
    int32_t away; /* -1: what is negative is rounded down at a half; 0 for no bits */
} mct_add_factor;

static inline mct_add_factor mct_add_factor_of(const mct_scaled *scaled) {
    return (mct_add_factor){scaled->mult_q31, scaled->shift, scaled->shift < 0 ? -1 : 0};
}

static inline int32x4_t mct_add_scaled(mct_add_factor f, int32x4_t x) {
    const int32x4_t v = vqrdmulhq_n_s32(x, f.mult_q31);
    const int32x4_t sign = vandq_s32(vshrq_n_s32(v, 31), vdupq_n_s32(f.away));
    return vrshlq_n_s32(vaddq_s32(v, sign), f.shift);
}

static inline int32x4_t mct_add_operand(mct_add_factor f, int32_t zero_point, int32_t left_shift,
                                        const int8_t *x, mve_pred16_t p) {
    return mct_add_scaled(f, vshlq_r_s32(vaddq_n_s32(vldrbq_z_s32(x, p), -zero_point), left_shift));
}

/* Whether no sum of two operands reaches 2^30. */
static int mct_add_is_short(const mct_add_s8_params *p) {
    return p->left_shift <= 20 && p->a.shift <= 0 && p->b.shift <= 0 && p->y.shift <= 0;
}

/* Elements i … i + count - 1, at most 4; i: a multiple of 4. */
static inline __attribute__((always_inline)) void mct_add_four(const mct_add_s8_params *p,
                                                               const int8_t *a, const int8_t *b,
                                                               int8_t *y, uint8_t *mask, int32_t i,
                                                               mve_pred16_t lanes) {
    const int32x4_t left =
        mct_add_operand(mct_add_factor_of(&p->a), p->a.zero_point, p->left_shift, a + i, lanes);
    const int32x4_t right =
        mct_add_operand(mct_add_factor_of(&p->b), p->b.zero_point, p->left_shift, b + i, lanes);
    const int32x4_t sum = mct_add_scaled(mct_add_factor_of(&p->y), vaddq_s32(left, right));
    const int32x4_t value = vaddq_n_s32(sum, p->y.zero_point);
    const int32x4_t low = vdupq_n_s32(p->low), high = vdupq_n_s32(p->high);
    const int32x4_t clamped = vminq_s32(vmaxq_s32(value, low), high);
    vstrbq_p_s32(y + i, clamped, lanes);
    if (mask != NULL) {
        const uint32_t passes = mct_helium_bits(vcmpeqq_s32(value, clamped) & lanes);
        const uint32_t before = (i & 4) != 0 ? mask[i >> 3] : 0u;
        mask[i >> 3] = (uint8_t)(before | passes << (i & 4));
    }
}

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    if (mct_add_is_short(p)) {
        const mct_add_s8_params q = *p; /* not read again after each store */
        const int32_t whole = q.elements & ~3;
        for (int32_t i = 0; i < whole; i += 4) {
            mct_add_four(&q, a, b, y, mask, i, vctp32q(4));
        }
        if (whole < q.elements) {
            mct_add_four(&q, a, b, y, mask, whole, vctp32q((uint32_t)(q.elements - whole)));
        }
        return;
    }
    mct_add_any(p, a, b, y, mask);
}
