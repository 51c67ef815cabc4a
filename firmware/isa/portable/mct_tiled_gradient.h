/* SPDX-License-Identifier: Apache-2.0 */
/* mct_gradient_put_s8 without 64-bit shifts, for sums of channels that come again and again.
 *
 * fraction = sum * mult_q31 / 2^bits, rounded down, is the high half of (sum * 2^(32 - bits)) *
 * mult_q31 if that factor fits int32. If it does not, the fraction is far beyond int8 (a multiplier
 * is at least 2^30, or 0) and rare: it goes the plain way, as whatever has an addend does. */
#ifndef MCT_TILED_GRADIENT_H
#define MCT_TILED_GRADIENT_H

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_tiled.h"
#include "mct_tiled_requantize.h"

/* What a channel's sums are scaled by. */
typedef struct {
    int32_t mult_q31;
    int32_t left, right; /* 32 - bits, or 0; bits - 32, or 0. left is -1: the plain way */
} mct_tiled_factor;

static inline mct_tiled_factor mct_tiled_factor_of(const mct_gradient_writer *writer, int32_t c) {
    const mct_gradient_stage *stage = writer->stage;
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t shift = stage->shift[m] + writer->exponent_change;
    const int32_t bits = mct_shift_right(shift) - MCT_FRACTION_BITS;
    const int plain = bits == 0 || writer->addend != NULL;
    return (mct_tiled_factor){stage->mult_q31[m], plain ? -1 : mct_max(32 - bits, 0),
                              mct_max(bits - 32, 0)};
}

/* What a node writes its gradient with. */
typedef struct {
    mct_gradient_writer *writer;
    const uint8_t *mask;
    uint32_t key;
    int8_t *dx;
} mct_tiled_writer;

static inline mct_tiled_writer mct_tiled_writer_of(mct_gradient_writer *writer, int8_t *dx) {
    return (mct_tiled_writer){writer, writer->mask, writer->key, dx};
}

/* Element i, of channel c. seen: gets its magnitude. */
static MCT_ALWAYS_INLINE void mct_tiled_round(const mct_tiled_writer *to,
                                              const mct_tiled_factor *factor, int32_t c,
                                              int32_t sum, int32_t i, uint32_t *seen) {
    if (to->mask != NULL && ((to->mask[i >> 3] >> (i & 7)) & 1) == 0) {
        to->dx[i] = 0;
        return;
    }
    const int32_t moved = (int32_t)((uint32_t)sum << (factor->left & 31));
    if (factor->left < 0 || moved >> factor->left != sum) {
        mct_gradient_put_s8(to->writer, sum, c, i, to->dx + i);
        return;
    }
    const int32_t fraction = mct_long_product_of(moved, factor->mult_q31).high >> factor->right;
    *seen |= (uint32_t)(fraction ^ (fraction >> 31));
    const int32_t rounded = (fraction + mct_random16(to->key, (uint32_t)i)) >> MCT_FRACTION_BITS;
    to->dx[i] = (int8_t)mct_clamp(rounded, -127, 127);
}

#endif
