/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp(gamma * (x - mean) / sqrt(variance + eps) + beta + y_zero_point, low, high), mean and
 * variance of each row; and its gradients.
 *
 * around_mean: 1. If 0, `origin` stands for the mean, in the variance too, and at most 32,896
 * channels are normalized.
 * gamma, beta: [channels], in steps of y, Q12. epsilon << epsilon_shift: channels^2 * eps / scale^2,
 * Q16, 1 to 2^62. mask: where y did not clamp, or NULL.
 * x, y: [rows][channels]; y may be x. At most 65,793 channels. */
#ifndef MCT_LAYER_NORM_H
#define MCT_LAYER_NORM_H

#include "mct_gradient.h"
#include "mct_types.h"
#include "mct_update.h"
#include "mct_update_rule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, channels;
    int32_t epsilon, epsilon_shift;
    int32_t around_mean, origin;
    int32_t y_zero_point;
    int32_t low, high;
} mct_layer_norm_s8_params;

void mct_layer_norm_s8(const mct_layer_norm_s8_params *p, const int8_t *x, const int32_t *gamma,
                       const int32_t *beta, int8_t *y, uint8_t *mask);

/* dx = stage((h - mean(h) - n * mean(h * n)) / sqrt(variance + eps)), h = gamma * dy, n normalized;
 * without mean(h) if not around_mean.
 *
 * gamma >> gamma_shift: 15 bits and a sign, as which it saturates. channels <= 2^channel_bits. shift: what is 2^half /
 * sqrt(channels^2 * (variance + eps)) is shifted right by shift + half >= 0, so that sums fit int32
 * (s16: 40 bits).
 * dy, x, dx: [rows][channels], dx may be dy   mask: a bit per element of dx, or NULL
 * scratch: `channels` sums (int32, s16: int64) */
typedef struct {
    int32_t rows, channels, channel_bits;
    int32_t gamma_shift;
    int32_t epsilon, epsilon_shift;
    int32_t around_mean, origin;
    int32_t shift;
    mct_gradient_stage stage;
} mct_layer_norm_grad_input_s8_params;
typedef mct_layer_norm_grad_input_s8_params mct_layer_norm_grad_input_s16_params;

void mct_layer_norm_grad_input_s8(const mct_layer_norm_grad_input_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  const int32_t *gamma, const uint8_t *mask, mct_exponent *exponent,
                                  int8_t *dx, int32_t *scratch);
void mct_layer_norm_grad_input_s16(const mct_layer_norm_grad_input_s16_params *p,
                                   const mct_step *step, const int16_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   const int32_t *gamma, const uint8_t *mask,
                                   mct_exponent *exponent, int16_t *dx, int64_t *scratch);

/* dgamma[c] = sum over rows of dy[r][c] * n[r][c], n normalized, Q6, applied to gamma or to its
 * int16 difference at once, or added to dgamma over the samples of an update.
 *
 * dy, x: [rows][channels]   gamma, difference, dgamma: [channels]   For s16 dgamma lacks the lowest
 * sum.dropped_bits bits. |n| <= 64 * (sqrt(channels) + 1), so of s8
 * |dgamma| <= 127 * 64 * (sqrt(channels) + 1) * rows, which the generator holds below 2^31.
 * scratch: `channels` sums (int32, s16: int64) */
typedef struct {
    int32_t rows, channels;
    int32_t epsilon, epsilon_shift;
    int32_t around_mean, origin;
    mct_parameter parameter;
} mct_layer_norm_update_gamma_s8_params;
typedef mct_layer_norm_update_gamma_s8_params mct_layer_norm_update_gamma_s16_params;
typedef mct_layer_norm_update_gamma_s8_params mct_layer_norm_update_gamma_difference_s8_params;
typedef mct_layer_norm_update_gamma_s8_params mct_layer_norm_update_gamma_difference_s16_params;

void mct_layer_norm_update_gamma_s8(const mct_layer_norm_update_gamma_s8_params *p,
                                    const mct_step *step, const int8_t *dy,
                                    const mct_exponent *dy_exponent, const int8_t *x,
                                    int32_t *scratch);
void mct_layer_norm_update_gamma_s16(const mct_layer_norm_update_gamma_s16_params *p,
                                     const mct_step *step, const int16_t *dy,
                                     const mct_exponent *dy_exponent, const int8_t *x,
                                     int64_t *scratch);
void mct_layer_norm_update_gamma_difference_s8(
    const mct_layer_norm_update_gamma_difference_s8_params *p, const mct_step *step,
    const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int32_t *scratch);
void mct_layer_norm_update_gamma_difference_s16(
    const mct_layer_norm_update_gamma_difference_s16_params *p, const mct_step *step,
    const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int64_t *scratch);

/* Updates of gamma by a rule of mct_update_rule.h. */
typedef struct {
    int32_t rows, channels;
    int32_t epsilon, epsilon_shift;
    int32_t around_mean, origin;
    mct_parameter parameter;
    mct_update_rule rule;
} mct_layer_norm_adapt_gamma_s8_params;
typedef mct_layer_norm_adapt_gamma_s8_params mct_layer_norm_adapt_gamma_difference_s8_params;

void mct_layer_norm_adapt_gamma_s8(const mct_layer_norm_adapt_gamma_s8_params *p,
                                   const mct_step *step, const int8_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   int32_t *scratch);
void mct_layer_norm_adapt_gamma_difference_s8(
    const mct_layer_norm_adapt_gamma_difference_s8_params *p, const mct_step *step,
    const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int32_t *scratch);

typedef struct {
    int32_t rows, channels;
    int32_t epsilon, epsilon_shift;
    int32_t around_mean, origin;
} mct_layer_norm_grad_gamma_s8_params;
typedef struct {
    int32_t rows, channels;
    int32_t epsilon, epsilon_shift;
    int32_t around_mean, origin;
    mct_sum_rule sum;
} mct_layer_norm_grad_gamma_s16_params;

void mct_layer_norm_grad_gamma_s8(const mct_layer_norm_grad_gamma_s8_params *p,
                                  const mct_step *step, const int8_t *dy, const int8_t *x,
                                  int32_t *dgamma, int32_t *scratch);
void mct_layer_norm_grad_gamma_s16(const mct_layer_norm_grad_gamma_s16_params *p,
                                   const mct_step *step, const int16_t *dy, const int8_t *x,
                                   int32_t *dgamma, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
