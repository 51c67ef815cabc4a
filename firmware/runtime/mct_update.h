/* SPDX-License-Identifier: Apache-2.0 */
/* How trained parameters move: w -= learning_rate * rate[c] * gradient, all in integers.
 *
 * A trained weight is an int8 and a few residual bits behind its point: w + r / 2^residual_bits
 * with 0 <= r < 2^residual_bits. Residuals are packed, see mct_residual.h. */
#ifndef MCT_UPDATE_H
#define MCT_UPDATE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A trained bias stays where no sum of products can overflow int32 with it. */
#define MCT_BIAS_LIMIT (INT32_C(1) << 30)
/* Where a difference to the model's bias saturates, if that is what the state holds. */
#define MCT_DIFFERENCE_LIMIT 32767

/* One update moves a weight by so many steps of its int8 at most, and a bias by what that is where
 * the weight's input is largest. So an absurd learning rate does not drive them to their ends,
 * where outputs clamp and nothing is learnt ever after. */
#define MCT_STEP_LIMIT 8
#define MCT_BIAS_STEP_LIMIT (128 * MCT_STEP_LIMIT)

/* A trained tensor, and all that its updates need to know. The generator writes one constant for each:
 * it lies in flash, and its pointers lead into the state and to tables. Another rule of updates is
 * another file in the place of mct_update.c; what it needs besides is a field here. */
typedef struct {
    void *values;            /* int8 weights, int32 biases, or int16 differences of biases */
    uint8_t *residual;       /* of the weights, packed; NULL: none */
    const int32_t *mult_q31; /* rate * scale of the gradient * 2^residual_bits */
    const int8_t *shift;
    int32_t per_channel;   /* 1: a rate per output channel, 0: one for all */
    int32_t residual_bits; /* 0, 2, 4 or 8; of a bias' difference: minus its shift */
    uint32_t salt;         /* tells this node's random numbers from others' */
} mct_parameter;

/* One tensor's update in progress. */
typedef struct {
    const mct_parameter *parameter;
    const mct_step *step;
    uint32_t key;
    int32_t exponent;  /* of the gradient sums */
    int32_t sum_bits;  /* |sum| < 2^sum_bits, or it is any int32 */
    int32_t kept_bits; /* that sums which fit int32 have more than the exponent says */
} mct_updater;

mct_updater mct_update_begin(const mct_parameter *parameter, const mct_step *step,
                             const mct_exponent *dy_exponent, int32_t dropped_bits);

/* Like mct_update_begin, where sums are those of so many int8 gradients, each by a difference of
 * two int8. */
mct_updater mct_update_begin_s8(const mct_parameter *parameter, const mct_step *step,
                                const mct_exponent *dy_exponent, int32_t positions);

/* Like mct_update_begin_s8, where sums are those of so many int16 gradients. Sums that fit int32
 * then keep all bits: they go to mct_update_scaled_s8, the others to mct_update_row_wide_s8. */
mct_updater mct_update_begin_s16(const mct_parameter *parameter, const mct_step *step,
                                 const mct_exponent *dy_exponent, int32_t positions);

/* A rate times the learning rate: sums * mult_q31 / 2^(32 - left + right) have MCT_FRACTION_BITS behind
 * the point. */
typedef struct {
    int32_t mult_q31;
    int32_t left, right; /* one of them is 0 */
} mct_rate;

/* That of output channel c, for sums that fit int32. */
mct_rate mct_update_rate(const mct_updater *u, int32_t c);

/* Updates the weights first … first + count - 1 of the output channel that has the rate; the gradient of
 * weight first + j is factor * sums[j]. */
void mct_update_scaled_s8(const mct_updater *u, const mct_rate *rate, int32_t factor,
                          const int32_t *sums, int32_t first, int32_t count);

/* Like mct_update_scaled_s8 with factor 1, for weights of a channel that lie `stride` apart, the first of
 * them number `first`. */
void mct_update_apart_s8(const mct_updater *u, const mct_rate *rate, const int32_t *sums,
                         int32_t first, int32_t count, int32_t stride);

/* mct_update_scaled_s8 where all gradients are 0. */
void mct_update_nothing_s8(const mct_updater *u, int32_t first, int32_t count);

/* mct_update_scaled_s8 for output channel c, with factor 1. */
void mct_update_row_s8(const mct_updater *u, int32_t c, const int32_t *sums, int32_t first,
                       int32_t count);

/* Like mct_update_row_s8, for weights that lie side by side for the output channels 0 … count - 1:
 * weight first + j is one of channel j. */
void mct_update_channels_s8(const mct_updater *u, const int32_t *sums, int32_t first,
                            int32_t count);

/* The int32 biases of the channels first … first + count - 1; there are no residuals. */
void mct_update_biases_s32(const mct_updater *u, const int32_t *sums, int32_t first, int32_t count);

/* Like mct_update_biases_s32, for int16 differences of biases, in units of 2^shift; they saturate
 * at ±MCT_DIFFERENCE_LIMIT. What they are added to is no matter: see mct_add_difference.h. */
void mct_update_biases_s16(const mct_updater *u, const int32_t *sums, int32_t first, int32_t count);

/* total[j] += sums[j], saturating; the first sample of an update overwrites. */
void mct_accumulate_s32(const mct_step *step, const int32_t *sums, int32_t count, int32_t *total);

/* Updates from the sums of int16 gradients; those beyond int32 lose MCT_DROPPED_BITS_S16 bits. */
void mct_update_row_wide_s8(const mct_updater *u, int32_t c, const int64_t *sums, int32_t first,
                            int32_t count);
void mct_update_channels_wide_s8(const mct_updater *u, const int64_t *sums, int32_t first,
                                 int32_t count);
void mct_update_biases_wide_s32(const mct_updater *u, const int64_t *sums, int32_t first,
                                int32_t count);
void mct_update_biases_wide_s16(const mct_updater *u, const int64_t *sums, int32_t first,
                                int32_t count);

/* How gradients are added up over samples, in int32: the sums of int16 gradients lose as many
 * bits as their size asks for, 0 to MCT_DROPPED_BITS_S16, rounded stochastically. The rate of the
 * update knows how many. */
typedef struct {
    int32_t dropped_bits;
    uint32_t salt; /* tells this node's random numbers from others' */
} mct_sum_rule;

/* total[j] += sums[j]; the sums are the elements first … of the gradient. */
void mct_accumulate_wide_s32(const mct_sum_rule *rule, const mct_step *step, const int64_t *sums,
                             int32_t first, int32_t count, int32_t *total);

#ifdef __cplusplus
}
#endif

#endif
