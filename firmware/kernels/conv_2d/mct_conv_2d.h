/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution in int8 and its gradients.
 *
 * acc[r][s][o] = b[o] + sum over ky, kx, i of (x[y'][x'][i] - x_zero_point) * w[o][ky][kx][i]
 *     with y' = r * stride_h + ky * dilation_h - pad_top, x' alike; outside the image x counts as
 *     x_zero_point.
 * y = clamp(acc * mult_q31[o] * 2^(shift[o] - 31) + zero_point, low, high), the same bits as
 *     TFLite's reference kernel for CONV_2D in int8.
 *
 * x: [h][w][in]   w: [out][kernel_h][kernel_w][in]   b: [out]   y: [rows][columns][out]
 * mask: a bit per element of y, 1 where it did not clamp (mct_types.h); NULL if it is not wanted.
 * trained: [out][kernel_h][kernel_w][p->trained.columns], weights in the place of w's; or NULL.
 * scratch: p->trained.rows rows of w, or all if there are fewer; NULL without `trained`.
 * |acc - b| <= 255 * 128 * kernel_h * kernel_w * in, or 255 times the sum of |w[o]|, must be below
 * 2^30, and |acc| * 2^max(shift, 0) with the zero point below 2^31. The wide functions take any sums;
 * those beyond saturate. Nothing may overlap. */
#ifndef MCT_CONV_2D_H
#define MCT_CONV_2D_H

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
    mct_trained_columns trained;
} mct_conv_2d_s8_params;

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch);

typedef mct_conv_2d_s8_params mct_conv_2d_wide_s8_params;

void mct_conv_2d_wide_s8(const mct_conv_2d_wide_s8_params *p, const int8_t *x, const int8_t *w,
                         const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                         int8_t *scratch);

/* The bare sums: logits for a loss. */
typedef struct {
    mct_shape x, y;
    mct_window window;
    int32_t x_zero_point;
} mct_conv_2d_s32_params;

void mct_conv_2d_s32(const mct_conv_2d_s32_params *p, const int8_t *x, const int8_t *w,
                     const int32_t *b, int32_t *y);

typedef mct_conv_2d_s32_params mct_conv_2d_wide_s32_params;

void mct_conv_2d_wide_s32(const mct_conv_2d_wide_s32_params *p, const int8_t *x, const int8_t *w,
                          const int32_t *b, int32_t *y);

/* dx[y'][x'][i] = stage(sum over o, ky, kx of dy[r][s][o] * w[o][ky][kx][i]) + addend's stage(addend)
 *
 * dy: [rows][columns][out]   dx: [h][w][in]   trained: as above, without rows
 * scratch: in sums (int32 for s8, int64 for s16), and with `trained` at least 4 columns of w.
 * addend: another gradient of the same tensor, added in the same rounding, or NULL; dx may be addend.
 * mask: a bit per element of dx, or NULL. |sum| <= 127 * 128 * out * kernel_h * kernel_w must
 * be below 2^31 for s8. */
typedef struct {
    mct_shape dx, dy;
    mct_window window;
    mct_gradient_stage stage;
    mct_gradient_stage addend;
    mct_trained_columns trained;
} mct_conv_2d_grad_input_s8_params;
typedef mct_conv_2d_grad_input_s8_params mct_conv_2d_grad_input_s16_params;

void mct_conv_2d_grad_input_s8(const mct_conv_2d_grad_input_s8_params *p, const mct_step *step,
                               const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *w,
                               const int8_t *addend, const mct_exponent *addend_exponent,
                               const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                               int32_t *scratch, const int8_t *trained);
void mct_conv_2d_grad_input_s16(const mct_conv_2d_grad_input_s16_params *p, const mct_step *step,
                                const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *w,
                                const int16_t *addend, const mct_exponent *addend_exponent,
                                const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                int64_t *scratch, const int8_t *trained);

/* dw[o][ky][kx][j] = sum over r, s of dy[r][s][o] * (x[y'][x'][j] - x_zero_point), applied to w at
 * once, row by row.
 *
 * x: [h][w][trained channels]   w: [out][kernel_h][kernel_w][trained channels]
 * scratch: one row of sums, kernel_h * kernel_w * trained channels (int32 for s8, int64 for s16).
 * |dw| <= 127 * 255 * rows * columns must be below 2^31 for s8, which is 66,311 positions; wide_s8
 * sums in int64 and then saturates. */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    mct_parameter parameter;
} mct_conv_2d_update_weight_s8_params;
typedef mct_conv_2d_update_weight_s8_params mct_conv_2d_update_weight_wide_s8_params;
typedef mct_conv_2d_update_weight_s8_params mct_conv_2d_update_weight_s16_params;

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  int32_t *scratch);
void mct_conv_2d_update_weight_wide_s8(const mct_conv_2d_update_weight_wide_s8_params *p,
                                       const mct_step *step, const int8_t *dy,
                                       const mct_exponent *dy_exponent, const int8_t *x,
                                       int64_t *scratch);
void mct_conv_2d_update_weight_s16(const mct_conv_2d_update_weight_s16_params *p,
                                   const mct_step *step, const int16_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   int64_t *scratch);

/* Updates of the weight by a rule of mct_update_rule.h, channel by channel.
 *
 * scratch: one row of sums (int32, wide_s8 int64). */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    mct_parameter parameter;
    mct_update_rule rule;
} mct_conv_2d_adapt_weight_s8_params;
typedef mct_conv_2d_adapt_weight_s8_params mct_conv_2d_adapt_weight_wide_s8_params;

void mct_conv_2d_adapt_weight_s8(const mct_conv_2d_adapt_weight_s8_params *p, const mct_step *step,
                                 const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                                 int32_t *scratch);
void mct_conv_2d_adapt_weight_wide_s8(const mct_conv_2d_adapt_weight_wide_s8_params *p,
                                      const mct_step *step, const int8_t *dy,
                                      const mct_exponent *dy_exponent, const int8_t *x,
                                      int64_t *scratch);

/* The weight gradient, added to dw [out][kernel_h][kernel_w][trained channels], saturating; the
 * first sample of an update overwrites. For s16 dw lacks the lowest sum.dropped_bits bits. */
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
} mct_conv_2d_grad_weight_s8_params;
typedef mct_conv_2d_grad_weight_s8_params mct_conv_2d_grad_weight_wide_s8_params;
typedef struct {
    mct_shape x, dy;
    mct_window window;
    int32_t x_zero_point;
    mct_sum_rule sum;
} mct_conv_2d_grad_weight_s16_params;

void mct_conv_2d_grad_weight_s8(const mct_conv_2d_grad_weight_s8_params *p, const mct_step *step,
                                const int8_t *dy, const int8_t *x, int32_t *dw, int32_t *scratch);
void mct_conv_2d_grad_weight_wide_s8(const mct_conv_2d_grad_weight_wide_s8_params *p,
                                     const mct_step *step, const int8_t *dy, const int8_t *x,
                                     int32_t *dw, int64_t *scratch);
void mct_conv_2d_grad_weight_s16(const mct_conv_2d_grad_weight_s16_params *p, const mct_step *step,
                                 const int16_t *dy, const int8_t *x, int32_t *dw, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
