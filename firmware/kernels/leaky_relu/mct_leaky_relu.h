/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp((x - x_zero_point) * factor + y_zero_point, low, high), with one factor for
 * x >= x_zero_point and another below: TFLite's LEAKY_RELU in int8, with its reference kernel's
 * rounding; and its gradient.
 *
 * x, y: [elements]; y may be x. mask: where y did not clamp, or NULL.
 * 255 * 2^max(shift, 0) must fit int32. */
#ifndef MCT_LEAKY_RELU_H
#define MCT_LEAKY_RELU_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t elements;
    int32_t x_zero_point, y_zero_point;
    int32_t positive_mult_q31, positive_shift;
    int32_t negative_mult_q31, negative_shift;
    int32_t low, high;
} mct_leaky_relu_s8_params;

void mct_leaky_relu_s8(const mct_leaky_relu_s8_params *p, const int8_t *x, int8_t *y,
                       uint8_t *mask);

/* dx = stage(dy * (x >= x_zero_point ? 2^15 : slope)); the stage takes the 2^15 back.
 *
 * dy, x, dx: [positions][channels]   mask: a bit per element of dx, or NULL   dx may be dy
 * scratch: `channels` products (int32 for s8, int64 for s16). |slope| <= 2^16. */
typedef struct {
    int32_t positions, channels;
    int32_t x_zero_point, slope;
    mct_gradient_stage stage;
} mct_leaky_relu_grad_input_s8_params;
typedef mct_leaky_relu_grad_input_s8_params mct_leaky_relu_grad_input_s16_params;

void mct_leaky_relu_grad_input_s8(const mct_leaky_relu_grad_input_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                  int32_t *scratch);
void mct_leaky_relu_grad_input_s16(const mct_leaky_relu_grad_input_s16_params *p,
                                   const mct_step *step, const int16_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                   int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
