/* SPDX-License-Identifier: Apache-2.0 */
/* How sums become gradients: one multiplication, one stochastic rounding, one clamp mask.
 *
 * A gradient tensor holds integers g with one power of two: derivative = g * 2^exponent * scale.
 * The exponent of a result is chosen before its sums are known, from what the last 16 to 31 updates
 * needed. Sums that do not fit saturate, and are noted for the next steps. */
#ifndef MCT_GRADIENT_H
#define MCT_GRADIENT_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* result = sum * mult_q31[c] * 2^(shift[c] - 31) * 2^(exponent of dy - exponent of result) */
typedef struct {
    const int32_t *mult_q31;
    const int8_t *shift;
    int32_t per_channel; /* 1: a multiplier per channel, 0: one for all */
    uint32_t salt;       /* tells this node's random numbers from others' */
} mct_gradient_stage;

/* One node's conversion in progress. */
typedef struct {
    const mct_gradient_stage *stage;
    mct_exponent *exponent;
    const uint8_t *mask; /* bit i: element i passes; NULL: all pass */
    uint32_t key;
    int32_t exponent_change; /* exponent of the sums - exponent of the result */
    const mct_gradient_stage *addend_stage;
    const void *addend; /* of dx's type and shape, added in the same rounding; NULL: nothing */
    int32_t addend_change;
    uint64_t seen; /* or of all magnitudes, MCT_FRACTION_BITS behind the point */
} mct_gradient_writer;

/* Chooses the exponent. dropped_bits: by how much the sums were shifted right before (int16). */
mct_gradient_writer mct_gradient_begin(const mct_gradient_stage *stage, const mct_step *step,
                                       const mct_exponent *dy_exponent, int32_t dropped_bits,
                                       const uint8_t *mask, mct_exponent *exponent);

/* Adds another gradient of the same tensor, if `addend` is not NULL. */
void mct_gradient_add(mct_gradient_writer *writer, const mct_gradient_stage *stage,
                      const void *addend, const mct_exponent *addend_exponent);

/* Converts the sums of `channels` channels, whose first has the index `first` in the tensor. */
void mct_gradient_write_s8(mct_gradient_writer *writer, const int32_t *sums, int32_t first,
                           int32_t channels, int8_t *dx);
void mct_gradient_write_s16(mct_gradient_writer *writer, const int64_t *sums, int32_t first,
                            int32_t channels, int16_t *dx);

/* Converts a single sum, whose channel is c and whose index is i. */
void mct_gradient_put_s8(mct_gradient_writer *writer, int32_t sum, int32_t c, int32_t i,
                         int8_t *dx);
void mct_gradient_put_s16(mct_gradient_writer *writer, int64_t sum, int32_t c, int32_t i,
                          int16_t *dx);

/* Notes what was needed. bits: of the result's type without the sign, 7 or 15. */
void mct_gradient_end(const mct_gradient_writer *writer, int32_t bits);

/* The parts of the above, for kernels that scale their terms themselves. */
void mct_exponent_begin(mct_exponent *exponent, const mct_step *step);
void mct_exponent_observe(mct_exponent *exponent, uint64_t seen, int32_t bits);

/* Sums of int16 gradients, kept in int64, as int32 with 8 bits less. */
#define MCT_DROPPED_BITS_S8 0
#define MCT_DROPPED_BITS_S16 8
int32_t mct_narrow_sum_s16(int64_t sum);

/* Such a sum as int32: exact if it fits, otherwise narrowed. kept_bits: how many of the
 * MCT_DROPPED_BITS_S16 it still has, all or none. Rounding small sums would lose every gradient that
 * is small beside the largest of its tensor. */
typedef struct {
    int32_t value;
    int32_t kept_bits;
} mct_fitted_sum;

static inline mct_fitted_sum mct_fit_sum_s16(int64_t sum) {
    const int fits = sum >= INT32_MIN && sum <= INT32_MAX;
    const mct_fitted_sum fitted = {fits ? (int32_t)sum : mct_narrow_sum_s16(sum),
                                   fits ? MCT_DROPPED_BITS_S16 : 0};
    return fitted;
}

#ifdef __cplusplus
}
#endif

#endif
