/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_gradient16.h"

/* kept_bits: of what the factor is for, as mct_fitted_sum has it. */
static mct_factor16 mct_factor16_of(const mct_gradient_stage *stage, int32_t change, int32_t c,
                                    int32_t kept_bits) {
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t shift = stage->shift[m] + change - kept_bits;
    const int32_t bits = mct_shift_right_finer(shift, kept_bits) - MCT_FRACTION_BITS;
    return (mct_factor16){
        .mult_q31 = stage->mult_q31[m],
        .left = mct_max(31 - bits, 0),
        .right = mct_max(bits - 31, 0),
        .portable = 31 - shift < MCT_MIN_SHIFT_RIGHT,
    };
}

void mct_factors16_of(const mct_gradient_writer *writer, int32_t c, int32_t count,
                      mct_factor16 factors[4]) {
    for (int32_t l = 0; l < count; l++) {
        factors[l] =
            mct_factor16_of(writer->stage, writer->exponent_change, c + l, MCT_DROPPED_BITS_S16);
    }
}

/* The fraction; lost: gets what shows that it does not fit. */
static inline int32_t mct_fraction16(const mct_factor16 *factor, int32_t sum, int32_t *lost) {
    const int32_t moved = (int32_t)((uint32_t)sum << factor->left);
    *lost |= (moved >> factor->left) ^ sum;
    return (int32_t)(((int64_t)moved * factor->mult_q31) >> 31) >> factor->right;
}

/* Channel c at the element i, which passes and has an addend. */
static int16_t mct_round_added(mct_gradient_writer *writer, int32_t fraction, int32_t c, int32_t i,
                               int32_t *lost) {
    const mct_factor16 factor = mct_factor16_of(writer->addend_stage, writer->addend_change, c, 0);
    const int16_t *addend = writer->addend;
    *lost |= factor.portable;
    const int64_t sum = (int64_t)fraction + mct_fraction16(&factor, addend[i], lost);
    if (*lost == 0) {
        writer->seen |= (uint64_t)(sum ^ (sum >> 63));
    }
    const int64_t rounded = (sum + mct_random16(writer->key, (uint32_t)i)) >> MCT_FRACTION_BITS;
    return (int16_t)mct_clamp64(rounded, -32767, 32767);
}

/* A channel's elements; sums: the first of them, `position` apart. */
static void mct_dsp_write_channel16(mct_gradient_writer *writer, const mct_factor16 *of,
                                    const int32_t *sums, int32_t position, int32_t c, int32_t i,
                                    int32_t step, int32_t positions, int16_t *dx) {
    const mct_factor16 factor = *of;
    const uint32_t key = writer->key;
    uint32_t seen = 0;
    for (; positions > 0; positions--, sums += position, i += step) {
        if (mct_dsp_passes(writer->mask, i) == 0) {
            dx[i] = 0;
            continue;
        }
        int32_t lost = factor.portable;
        const int32_t fraction = mct_fraction16(&factor, *sums, &lost);
        int32_t rounded = 0;
        if (writer->addend != NULL) {
            rounded = mct_round_added(writer, fraction, c, i, &lost);
        } else {
            const int32_t random = mct_random16(key, (uint32_t)i);
            rounded = mct_max(mct_add_saturated(fraction, random) >> MCT_FRACTION_BITS, -32767);
            seen |= lost == 0 ? (uint32_t)(fraction ^ (fraction >> 31)) : 0;
        }
        if (lost == 0) {
            dx[i] = (int16_t)rounded;
        } else {
            mct_gradient_put_s16(writer, *sums, c, i, dx + i);
        }
    }
    writer->seen |= seen;
}

void mct_dsp_write_sums16(mct_gradient_writer *writer, const mct_factor16 factors[4],
                          mct_dsp_sums sums, int32_t c, int32_t count, int32_t first, int32_t step,
                          int32_t positions, int16_t *dx) {
    for (int32_t l = 0; l < count; l++) {
        mct_dsp_write_channel16(writer, &factors[l], sums.from + l * sums.lane, sums.position,
                                c + l, first + l, step, positions, dx);
    }
}
