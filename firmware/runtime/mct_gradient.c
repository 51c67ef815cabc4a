/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_gradient.h"

#include "mct_fixedpoint.h"

void mct_exponent_begin(mct_exponent *exponent, const mct_step *step) {
    if (step->sample != 0) {
        return; /* the samples of one update share their exponents */
    }
    const int8_t largest = exponent->recent > exponent->older ? exponent->recent : exponent->older;
    if (largest != MCT_NO_EXPONENT) {
        exponent->now = largest;
    }
    if (step->update % MCT_EXPONENT_WINDOW == 0) {
        exponent->older = exponent->recent;
        exponent->recent = MCT_NO_EXPONENT;
    }
}

void mct_exponent_observe(mct_exponent *exponent, uint64_t seen, int32_t bits) {
    if (seen == 0) {
        return;
    }
    const int32_t integer_bits = mct_bit_length64(seen) - MCT_FRACTION_BITS;
    const int32_t needed = mct_clamp(exponent->now + integer_bits - bits, MCT_NO_EXPONENT + 1, 127);
    exponent->recent = (int8_t)mct_max(exponent->recent, needed);
}

mct_gradient_writer mct_gradient_begin(const mct_gradient_stage *stage, const mct_step *step,
                                       const mct_exponent *dy_exponent, int32_t dropped_bits,
                                       const uint8_t *mask, mct_exponent *exponent) {
    mct_exponent_begin(exponent, step);
    return (mct_gradient_writer){
        .stage = stage,
        .exponent = exponent,
        .mask = mask,
        .key = mct_node_key(step->key, stage->salt),
        .exponent_change = dy_exponent->now + dropped_bits - exponent->now,
        .seen = 0,
    };
}

void mct_gradient_add(mct_gradient_writer *writer, const mct_gradient_stage *stage,
                      const void *addend, const mct_exponent *addend_exponent) {
    if (addend != NULL) {
        writer->addend_stage = stage;
        writer->addend = addend;
        writer->addend_change = addend_exponent->now - writer->exponent->now;
    }
}

void mct_gradient_end(const mct_gradient_writer *writer, int32_t bits) {
    mct_exponent_observe(writer->exponent, writer->seen, bits);
}

int32_t mct_narrow_sum_s16(int64_t sum) {
    const int64_t rounded =
        (sum + (INT64_C(1) << (MCT_DROPPED_BITS_S16 - 1))) >> MCT_DROPPED_BITS_S16;
    return (int32_t)mct_clamp64(rounded, INT32_MIN, INT32_MAX);
}

typedef int64_t mct_scale(const mct_gradient_stage *stage, int32_t change, mct_fitted_sum sum,
                          int32_t c);

static inline int64_t mct_scaled_s8(const mct_gradient_stage *stage, int32_t change,
                                    mct_fitted_sum sum, int32_t c) {
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t right = mct_shift_right(stage->shift[m] + change);
    return mct_scale_to_fraction(sum.value, stage->mult_q31[m], right);
}

static inline int64_t mct_scaled_s16(const mct_gradient_stage *stage, int32_t change,
                                     mct_fitted_sum sum, int32_t c) {
    const int32_t m = stage->per_channel ? c : 0;
    const int32_t shift = stage->shift[m] + change - sum.kept_bits;
    return mct_scale_reaching(sum.value, stage->mult_q31[m], shift, sum.kept_bits);
}

/* Element i of the tensor, channel c: scaled, added, masked, noted, rounded. */
static inline int64_t mct_gradient_round(mct_gradient_writer *writer, mct_scale *scaled,
                                         mct_fitted_sum sum, int32_t addend, int32_t c, int32_t i) {
    if (writer->mask != NULL && ((writer->mask[i >> 3] >> (i & 7)) & 1) == 0) {
        return 0;
    }
    int64_t fraction = scaled(writer->stage, writer->exponent_change, sum, c);
    if (writer->addend != NULL) {
        const mct_fitted_sum added = {addend, 0};
        fraction += scaled(writer->addend_stage, writer->addend_change, added, c);
    }
    writer->seen |= (uint64_t)(fraction ^ (fraction >> 63));
    return (fraction + mct_random16(writer->key, (uint32_t)i)) >> MCT_FRACTION_BITS;
}

void mct_gradient_put_s8(mct_gradient_writer *writer, int32_t sum, int32_t c, int32_t i,
                         int8_t *dx) {
    const int8_t *addend = writer->addend;
    const int32_t added = addend != NULL ? addend[i] : 0;
    const mct_fitted_sum exact = {sum, 0};
    *dx = (int8_t)mct_clamp64(mct_gradient_round(writer, mct_scaled_s8, exact, added, c, i), -127,
                              127);
}

void mct_gradient_put_s16(mct_gradient_writer *writer, int64_t sum, int32_t c, int32_t i,
                          int16_t *dx) {
    const int16_t *addend = writer->addend;
    const int32_t added = addend != NULL ? addend[i] : 0;
    const mct_fitted_sum fitted = mct_fit_sum_s16(sum);
    const int64_t rounded = mct_gradient_round(writer, mct_scaled_s16, fitted, added, c, i);
    *dx = (int16_t)mct_clamp64(rounded, -32767, 32767);
}

void mct_gradient_write_s8(mct_gradient_writer *writer, const int32_t *sums, int32_t first,
                           int32_t channels, int8_t *dx) {
    const int8_t *addend = writer->addend;
    for (int32_t c = 0; c < channels; c++) {
        const int32_t added = addend != NULL ? addend[first + c] : 0;
        const mct_fitted_sum exact = {sums[c], 0};
        const int64_t rounded =
            mct_gradient_round(writer, mct_scaled_s8, exact, added, c, first + c);
        dx[c] = (int8_t)mct_clamp64(rounded, -127, 127);
    }
}

void mct_gradient_write_s16(mct_gradient_writer *writer, const int64_t *sums, int32_t first,
                            int32_t channels, int16_t *dx) {
    const int16_t *addend = writer->addend;
    for (int32_t c = 0; c < channels; c++) {
        const int32_t added = addend != NULL ? addend[first + c] : 0;
        const mct_fitted_sum sum = mct_fit_sum_s16(sums[c]);
        const int64_t rounded =
            mct_gradient_round(writer, mct_scaled_s16, sum, added, c, first + c);
        dx[c] = (int16_t)mct_clamp64(rounded, -32767, 32767);
    }
}
