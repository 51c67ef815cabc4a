/* SPDX-License-Identifier: Apache-2.0 */
/* db[c] = sum over all positions of dy[..][c], applied to the int32 bias b[c] or to its int16
 * difference at once, or added to db over the samples of an update.
 *
 * dy: [positions][channels_out]   b, difference, db: [channels_out]   For s16 db lacks the lowest
 * sum.dropped_bits bits. |db| <= 127 * positions. */
#ifndef MCT_BIAS_H
#define MCT_BIAS_H

#include "mct_types.h"
#include "mct_update.h"
#include "mct_update_rule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t positions, channels_out;
    mct_parameter parameter;
} mct_bias_update_s8_params;
typedef mct_bias_update_s8_params mct_bias_update_s16_params;

void mct_bias_update_s8(const mct_bias_update_s8_params *p, const mct_step *step, const int8_t *dy,
                        const mct_exponent *dy_exponent);
void mct_bias_update_s16(const mct_bias_update_s16_params *p, const mct_step *step,
                         const int16_t *dy, const mct_exponent *dy_exponent);

typedef mct_bias_update_s8_params mct_bias_update_difference_s8_params;
typedef mct_bias_update_s8_params mct_bias_update_difference_s16_params;

void mct_bias_update_difference_s8(const mct_bias_update_difference_s8_params *p,
                                   const mct_step *step, const int8_t *dy,
                                   const mct_exponent *dy_exponent);
void mct_bias_update_difference_s16(const mct_bias_update_difference_s16_params *p,
                                    const mct_step *step, const int16_t *dy,
                                    const mct_exponent *dy_exponent);

/* Updates of a bias by a rule of mct_update_rule.h. */
typedef struct {
    int32_t positions, channels_out;
    mct_parameter parameter;
    mct_update_rule rule;
} mct_bias_adapt_s8_params;
typedef mct_bias_adapt_s8_params mct_bias_adapt_difference_s8_params;

void mct_bias_adapt_s8(const mct_bias_adapt_s8_params *p, const mct_step *step, const int8_t *dy,
                       const mct_exponent *dy_exponent);
void mct_bias_adapt_difference_s8(const mct_bias_adapt_difference_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent);

typedef struct {
    int32_t positions, channels_out;
} mct_bias_grad_s8_params;
typedef struct {
    int32_t positions, channels_out;
    mct_sum_rule sum;
} mct_bias_grad_s16_params;

void mct_bias_grad_s8(const mct_bias_grad_s8_params *p, const mct_step *step, const int8_t *dy,
                      int32_t *db);
void mct_bias_grad_s16(const mct_bias_grad_s16_params *p, const mct_step *step, const int16_t *dy,
                       int32_t *db);

#ifdef __cplusplus
}
#endif

#endif
