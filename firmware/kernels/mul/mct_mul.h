/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp((a - a_zero_point) * (b - b_zero_point) * mult_q31 * 2^(shift - 31) + y_zero_point, low,
 * high): TFLite's MUL in int8, with its reference kernel's rounding; and its gradients.
 *
 * a, y: [positions][channels]; y may be a. b: the same, or [channels] if b_per_channel.
 * mask: where y did not clamp, or NULL. 255 * 255 * 2^max(shift, 0) must fit int32: shift <= 15. */
#ifndef MCT_MUL_H
#define MCT_MUL_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t positions, channels;
    int32_t b_per_channel;
    int32_t a_zero_point, b_zero_point, y_zero_point;
    int32_t mult_q31, shift;
    int32_t low, high;
} mct_mul_s8_params;

void mct_mul_s8(const mct_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask);

/* dx = stage(dy * (other - zero_point)).
 *
 * dy, dx: [positions][channels], dx may be dy   other: the same, or [channels] if other_per_channel
 * mask: a bit per element of dx, or NULL   scratch: `channels` products (int32, s16: int64) */
typedef struct {
    int32_t positions, channels;
    int32_t other_per_channel;
    int32_t zero_point;
    mct_gradient_stage stage;
} mct_mul_grad_input_s8_params;
typedef mct_mul_grad_input_s8_params mct_mul_grad_input_s16_params;

void mct_mul_grad_input_s8(const mct_mul_grad_input_s8_params *p, const mct_step *step,
                           const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *other,
                           const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                           int32_t *scratch);
void mct_mul_grad_input_s16(const mct_mul_grad_input_s16_params *p, const mct_step *step,
                            const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *other,
                            const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                            int64_t *scratch);

/* dx[c] = stage(sum over positions of dy * (other - zero_point)): of the operand per channel.
 *
 * dy, other: [positions][channels]   dx: [channels]   mask: a bit per element of dx, or NULL
 * scratch: `channels` sums (int32, s16: int64). |sum| <= positions * 127 * 255 must be below
 * 2^31 for s8, which is 66,311 positions; wide_s8 sums in int64 and then saturates. */
typedef struct {
    int32_t positions, channels;
    int32_t zero_point;
    mct_gradient_stage stage;
} mct_mul_grad_channels_s8_params;
typedef mct_mul_grad_channels_s8_params mct_mul_grad_channels_wide_s8_params;
typedef mct_mul_grad_channels_s8_params mct_mul_grad_channels_s16_params;

void mct_mul_grad_channels_s8(const mct_mul_grad_channels_s8_params *p, const mct_step *step,
                              const int8_t *dy, const mct_exponent *dy_exponent,
                              const int8_t *other, const uint8_t *mask, mct_exponent *exponent,
                              int8_t *dx, int32_t *scratch);
void mct_mul_grad_channels_wide_s8(const mct_mul_grad_channels_wide_s8_params *p,
                                   const mct_step *step, const int8_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *other,
                                   const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                   int64_t *scratch);
void mct_mul_grad_channels_s16(const mct_mul_grad_channels_s16_params *p, const mct_step *step,
                               const int16_t *dy, const mct_exponent *dy_exponent,
                               const int8_t *other, const uint8_t *mask, mct_exponent *exponent,
                               int16_t *dx, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
