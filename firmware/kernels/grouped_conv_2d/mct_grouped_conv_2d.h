/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution in groups, in int8, and its gradients: group g of the outputs reads group g of the
 * inputs alone.
 *
 * acc[r][s][o] = b[o] + sum over ky, kx, i of
 *     (x[y'][x'][g * in + i] - x_zero_point) * w[o][ky][kx][i]
 *     with in = x.c / groups, g = o / (y.c / groups), and y', x' as in conv_2d.h; outside the image
 *     x counts as x_zero_point.
 * y = clamp(acc * mult_q31[o] * 2^(shift[o] - 31) + zero_point, low, high), the same bits as
 *     TFLite's reference kernel for CONV_2D in int8.
 *
 * x: [h][w][x.c]   w: [y.c][kernel_h][kernel_w][in]   b: [y.c]   y: [rows][columns][y.c]
 * mask: a bit per element of y, 1 where it did not clamp; NULL if it is not wanted.
 * Nothing may overlap. What is said of sums in conv_2d.h is true here, with the channels of a group. */
#ifndef MCT_GROUPED_CONV_2D_H
#define MCT_GROUPED_CONV_2D_H

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
    int32_t groups;
    int32_t x_zero_point;
    mct_requantize requantize;
} mct_grouped_conv_2d_s8_params;

void mct_grouped_conv_2d_s8(const mct_grouped_conv_2d_s8_params *p, const int8_t *x,
                            const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask);

typedef mct_grouped_conv_2d_s8_params mct_grouped_conv_2d_wide_s8_params;

void mct_grouped_conv_2d_wide_s8(const mct_grouped_conv_2d_wide_s8_params *p, const int8_t *x,
                                 const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask);

/* dx[y'][x'][g * in + i] = stage(sum over the o of group g, ky, kx of dy[r][s][o] * w[o][ky][kx][i])
 *
 * dy: [rows][columns][out]   dx: [h][w][dx.c]   mask: a bit per element of dx, or NULL
 * scratch: dx.c sums (int32 for s8, int64 for s16). */
typedef struct {
    mct_shape dx, dy;
    mct_window window;
    int32_t groups;
    mct_gradient_stage stage;
} mct_grouped_conv_2d_grad_input_s8_params;
typedef mct_grouped_conv_2d_grad_input_s8_params mct_grouped_conv_2d_grad_input_s16_params;

void mct_grouped_conv_2d_grad_input_s8(const mct_grouped_conv_2d_grad_input_s8_params *p,
                                       const mct_step *step, const int8_t *dy,
                                       const mct_exponent *dy_exponent, const int8_t *w,
                                       const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                       int32_t *scratch);
void mct_grouped_conv_2d_grad_input_s16(const mct_grouped_conv_2d_grad_input_s16_params *p,
                                        const mct_step *step, const int16_t *dy,
                                        const mct_exponent *dy_exponent, const int8_t *w,
                                        const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                        int64_t *scratch);

/* dw[o][ky][kx][j] = sum over r, s of dy[r][s][o] * (x[y'][x'][g * columns + j] - x_zero_point),
 * applied to w at once, row by row.
 *
 * x: [h][w][groups * columns], of each group the trained columns   w: [out][kernel_h][kernel_w][columns]
 * scratch: one row of sums, kernel_h * kernel_w * columns (int32 for s8, int64 for s16 and wide_s8). */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t groups;
    int32_t x_zero_point;
    mct_parameter parameter;
} mct_grouped_conv_2d_update_weight_s8_params;
typedef mct_grouped_conv_2d_update_weight_s8_params
    mct_grouped_conv_2d_update_weight_wide_s8_params;
typedef mct_grouped_conv_2d_update_weight_s8_params mct_grouped_conv_2d_update_weight_s16_params;

void mct_grouped_conv_2d_update_weight_s8(const mct_grouped_conv_2d_update_weight_s8_params *p,
                                          const mct_step *step, const int8_t *dy,
                                          const mct_exponent *dy_exponent, const int8_t *x,
                                          int32_t *scratch);
void mct_grouped_conv_2d_update_weight_wide_s8(
    const mct_grouped_conv_2d_update_weight_wide_s8_params *p, const mct_step *step,
    const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int64_t *scratch);
void mct_grouped_conv_2d_update_weight_s16(const mct_grouped_conv_2d_update_weight_s16_params *p,
                                           const mct_step *step, const int16_t *dy,
                                           const mct_exponent *dy_exponent, const int8_t *x,
                                           int64_t *scratch);

/* Updates of the weight by a rule of mct_update_rule.h, channel by channel.
 *
 * scratch: one row of sums (int32, wide_s8 int64). */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t groups;
    int32_t x_zero_point;
    mct_parameter parameter;
    mct_update_rule rule;
} mct_grouped_conv_2d_adapt_weight_s8_params;
typedef mct_grouped_conv_2d_adapt_weight_s8_params mct_grouped_conv_2d_adapt_weight_wide_s8_params;

void mct_grouped_conv_2d_adapt_weight_s8(const mct_grouped_conv_2d_adapt_weight_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *x,
                                         int32_t *scratch);
void mct_grouped_conv_2d_adapt_weight_wide_s8(
    const mct_grouped_conv_2d_adapt_weight_wide_s8_params *p, const mct_step *step,
    const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x, int64_t *scratch);

/* The weight gradient, added to dw, as in mct_conv_2d.h. */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t groups;
    int32_t x_zero_point;
} mct_grouped_conv_2d_grad_weight_s8_params;
typedef mct_grouped_conv_2d_grad_weight_s8_params mct_grouped_conv_2d_grad_weight_wide_s8_params;
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t groups;
    int32_t x_zero_point;
    mct_sum_rule sum;
} mct_grouped_conv_2d_grad_weight_s16_params;

void mct_grouped_conv_2d_grad_weight_s8(const mct_grouped_conv_2d_grad_weight_s8_params *p,
                                        const mct_step *step, const int8_t *dy, const int8_t *x,
                                        int32_t *dw, int32_t *scratch);
void mct_grouped_conv_2d_grad_weight_wide_s8(
    const mct_grouped_conv_2d_grad_weight_wide_s8_params *p, const mct_step *step, const int8_t *dy,
    const int8_t *x, int32_t *dw, int64_t *scratch);
void mct_grouped_conv_2d_grad_weight_s16(const mct_grouped_conv_2d_grad_weight_s16_params *p,
                                         const mct_step *step, const int16_t *dy, const int8_t *x,
                                         int32_t *dw, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
