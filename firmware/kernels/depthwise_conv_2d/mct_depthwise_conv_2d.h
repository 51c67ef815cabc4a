/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolution in int8 and its gradients.
 *
 * acc[r][s][c] = b[c] + sum over ky, kx of (x[y'][x'][c / m] - x_zero_point) * w[ky][kx][c]
 *     with m = y.c / x.c outputs per input channel, and y', x' as in conv_2d.h; outside the image
 *     x counts as x_zero_point.
 * y = clamp(acc * mult_q31[c] * 2^(shift[c] - 31) + zero_point, low, high), the same bits as
 *     TFLite's reference kernel for DEPTHWISE_CONV_2D in int8.
 *
 * x: [h][w][x.c]   w: [kernel_h][kernel_w][y.c]   b: [y.c]   y: [rows][columns][y.c]
 * mask: a bit per element of y, 1 where it did not clamp; NULL if it is not wanted.
 * y may be x where the window keeps an image's size (stride 1); then scratch has room for 4 channels of
 * x, else it is NULL. Nothing else may overlap. What is said of sums in conv_2d.h is true here, with in = 1; so it is of dw,
 * and dx has kernel_h * kernel_w * m products. */
#ifndef MCT_DEPTHWISE_CONV_2D_H
#define MCT_DEPTHWISE_CONV_2D_H

#include "mct_gradient.h"
#include "mct_types.h"
#include "mct_update.h"
#include "mct_update_rule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    mct_shape x, y;
    mct_window window;
    int32_t x_zero_point;
    mct_requantize requantize;
} mct_depthwise_conv_2d_s8_params;

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch);

typedef mct_depthwise_conv_2d_s8_params mct_depthwise_conv_2d_wide_s8_params;

void mct_depthwise_conv_2d_wide_s8(const mct_depthwise_conv_2d_wide_s8_params *p, const int8_t *x,
                                   const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask);

/* dx[y'][x'][i] = stage(sum over ky, kx and the outputs c of channel i of dy[r][s][c] * w[..][c])
 *
 * dy: [rows][columns][dy.c]   dx: [h][w][dx.c]   mask: a bit per element of dx, or NULL
 * scratch: dx.c sums (int32 for s8, int64 for s16); or 4 channels of dy, where dx is dy, which may be
 * where y may be x. */
typedef struct {
    mct_shape dx, dy;
    mct_window window;
    mct_gradient_stage stage;
} mct_depthwise_conv_2d_grad_input_s8_params;
typedef mct_depthwise_conv_2d_grad_input_s8_params mct_depthwise_conv_2d_grad_input_s16_params;

void mct_depthwise_conv_2d_grad_input_s8(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *w,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int32_t *scratch);
void mct_depthwise_conv_2d_grad_input_s16(const mct_depthwise_conv_2d_grad_input_s16_params *p,
                                          const mct_step *step, const int16_t *dy,
                                          const mct_exponent *dy_exponent, const int8_t *w,
                                          const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                          int64_t *scratch);

/* dw[ky][kx][j] = sum over r, s of dy[r][s][channels[j]] * (x[y'][x'][x_columns[j]] - x_zero_point)
 * for j < trained_channels, applied to w[ky][kx][j] tap by tap.
 *
 * channels, x_columns: NULL means j itself.
 * scratch: trained_channels sums (int32 for s8, int64 for s16). */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    int32_t trained_channels;
    const int16_t *x_columns;
    const int16_t *channels;
    mct_parameter parameter;
} mct_depthwise_conv_2d_update_weight_s8_params;
typedef mct_depthwise_conv_2d_update_weight_s8_params
    mct_depthwise_conv_2d_update_weight_wide_s8_params;
typedef mct_depthwise_conv_2d_update_weight_s8_params
    mct_depthwise_conv_2d_update_weight_s16_params;

void mct_depthwise_conv_2d_update_weight_s8(const mct_depthwise_conv_2d_update_weight_s8_params *p,
                                            const mct_step *step, const int8_t *dy,
                                            const mct_exponent *dy_exponent, const int8_t *x,
                                            int32_t *scratch);
void mct_depthwise_conv_2d_update_weight_wide_s8(
    const mct_depthwise_conv_2d_update_weight_wide_s8_params *p, const mct_step *step,
    const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int64_t *scratch);
void mct_depthwise_conv_2d_update_weight_s16(
    const mct_depthwise_conv_2d_update_weight_s16_params *p, const mct_step *step,
    const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int64_t *scratch);

/* Updates of the weight by a rule of mct_update_rule.h, channel by channel.
 *
 * scratch: one channel of sums, kernel_h * kernel_w (int32, wide_s8 int64). */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    int32_t trained_channels;
    const int16_t *x_columns;
    const int16_t *channels;
    mct_parameter parameter;
    mct_update_rule rule;
} mct_depthwise_conv_2d_adapt_weight_s8_params;
typedef mct_depthwise_conv_2d_adapt_weight_s8_params
    mct_depthwise_conv_2d_adapt_weight_wide_s8_params;

void mct_depthwise_conv_2d_adapt_weight_s8(const mct_depthwise_conv_2d_adapt_weight_s8_params *p,
                                           const mct_step *step, const int8_t *dy,
                                           const mct_exponent *dy_exponent, const int8_t *x,
                                           int32_t *scratch);
void mct_depthwise_conv_2d_adapt_weight_wide_s8(
    const mct_depthwise_conv_2d_adapt_weight_wide_s8_params *p, const mct_step *step,
    const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int64_t *scratch);

/* The weight gradient, added to dw [kernel_h][kernel_w][trained_channels], saturating; the first
 * sample of an update overwrites. For s16 dw lacks the lowest sum.dropped_bits bits. */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    int32_t trained_channels;
    const int16_t *x_columns;
    const int16_t *channels;
} mct_depthwise_conv_2d_grad_weight_s8_params;
typedef mct_depthwise_conv_2d_grad_weight_s8_params
    mct_depthwise_conv_2d_grad_weight_wide_s8_params;
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    int32_t trained_channels;
    const int16_t *x_columns;
    const int16_t *channels;
    mct_sum_rule sum;
} mct_depthwise_conv_2d_grad_weight_s16_params;

void mct_depthwise_conv_2d_grad_weight_s8(const mct_depthwise_conv_2d_grad_weight_s8_params *p,
                                          const mct_step *step, const int8_t *dy, const int8_t *x,
                                          int32_t *dw, int32_t *scratch);
void mct_depthwise_conv_2d_grad_weight_wide_s8(
    const mct_depthwise_conv_2d_grad_weight_wide_s8_params *p, const mct_step *step,
    const int8_t *dy, const int8_t *x, int32_t *dw, int64_t *scratch);
void mct_depthwise_conv_2d_grad_weight_s16(const mct_depthwise_conv_2d_grad_weight_s16_params *p,
                                           const mct_step *step, const int16_t *dy, const int8_t *x,
                                           int32_t *dw, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
