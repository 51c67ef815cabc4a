/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_gradient.h"

#define MCT_LARGE (1 << 29)  /* two fractions below it and 16 random bits fit int32 */
#define MCT_BEYOND INT32_MAX /* no fraction */

static mct_tiled_factor mct_factor_of(const mct_gradient_stage *stage, int32_t change, int32_t c) {
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t bits = mct_shift_right(stage->shift[m] + change) - MCT_FRACTION_BITS;
    return (mct_tiled_factor){stage->mult_q31[m], bits == 0 ? -1 : mct_max(32 - bits, 0),
                              mct_max(bits - 32, 0)};
}

mct_armv6m_factor mct_armv6m_factor_of(const mct_gradient_writer *writer, int32_t c) {
    mct_armv6m_factor factor = {mct_factor_of(writer->stage, writer->exponent_change, c),
                                {0, 0, 0}};
    if (writer->addend != NULL) {
        factor.addend = mct_factor_of(writer->addend_stage, writer->addend_change, c);
    }
    return factor;
}

/* Sums on their way to elements i, i + step … of dx. */
typedef struct {
    mct_gradient_writer *writer;
    const int32_t *sums, *end;
    const mct_armv6m_factor *factor;
    int32_t c, channel_step, i, step;
    int8_t *dx;
} mct_rounding;

/* The same as mct_scale_to_fraction where that is inside +-2^30; else MCT_BEYOND. */
static MCT_ALWAYS_INLINE int32_t mct_fraction_of(const mct_tiled_factor *factor, int32_t sum) {
    const int32_t moved = (int32_t)((uint32_t)sum << (factor->left & 31));
    if (factor->left < 0 || moved >> factor->left != sum) {
        return MCT_BEYOND;
    }
    return mct_long_product_of(moved, factor->mult_q31).high >> factor->right;
}

static MCT_ALWAYS_INLINE void mct_round(mct_rounding r, int is_added) {
    const uint8_t *mask = r.writer->mask;
    const int8_t *addend = r.writer->addend;
    const uint32_t key = r.writer->key;
    uint32_t seen = 0;
    for (; r.sums != r.end;
         r.sums++, r.i += r.step, r.c += r.channel_step, r.factor += r.channel_step) {
        if (mask != NULL && ((mask[r.i >> 3] >> (r.i & 7)) & 1) == 0) {
            r.dx[r.i] = 0;
            continue;
        }
        int32_t fraction = mct_fraction_of(&r.factor->sum, *r.sums);
        if (is_added && fraction != MCT_BEYOND) {
            const int32_t added = mct_fraction_of(&r.factor->addend, addend[r.i]);
            const int32_t large = (fraction ^ (fraction >> 31)) | (added ^ (added >> 31));
            fraction = large < MCT_LARGE ? fraction + added : MCT_BEYOND;
        }
        if (fraction == MCT_BEYOND) {
            mct_gradient_put_s8(r.writer, *r.sums, r.c, r.i, r.dx + r.i);
            continue;
        }
        seen |= (uint32_t)(fraction ^ (fraction >> 31));
        const int32_t rounded = (fraction + mct_random16(key, (uint32_t)r.i)) >> MCT_FRACTION_BITS;
        r.dx[r.i] = (int8_t)mct_clamp(rounded, -127, 127);
    }
    r.writer->seen |= seen;
}

static MCT_APART void mct_round_added(const mct_rounding *rounding) {
    mct_round(*rounding, 1);
}

static MCT_APART void mct_round_alone(const mct_rounding *rounding) {
    mct_round(*rounding, 0);
}

void mct_armv6m_round_sums(mct_gradient_writer *writer, const int32_t *sums, int32_t count,
                           const mct_armv6m_factor *factor, int32_t c, int32_t channel_step,
                           int32_t i, int32_t step, int8_t *dx) {
    const mct_rounding rounding = {writer,       sums, sums + count, factor, c,
                                   channel_step, i,    step,         dx};
    (writer->addend != NULL ? mct_round_added : mct_round_alone)(&rounding);
}
