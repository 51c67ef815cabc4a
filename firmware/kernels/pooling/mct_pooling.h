/* SPDX-License-Identifier: Apache-2.0 */
/* Average and maximum over windows, the mean over an image, and their gradients.
 *
 * x: [x.h][x.w][c]   y: [y.h][y.w][c]   Windows see only what lies inside the image.
 * mask of a forward operator: where y did not clamp, or NULL.
 * Nothing may overlap. Sums stay below 128 * elements of a window < 2^31. */
#ifndef MCT_POOLING_H
#define MCT_POOLING_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    mct_shape x, y;
    mct_window window;
    int32_t low, high;
} mct_average_pool_2d_s8_params;
typedef mct_average_pool_2d_s8_params mct_max_pool_2d_s8_params;

/* y = clamp(sum / count, halves away from zero): TFLite's AVERAGE_POOL_2D in int8. */
void mct_average_pool_2d_s8(const mct_average_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                            uint8_t *mask);

/* y = clamp(sum over the window of (x - x_zero_point), times mult_q31 / count, + y_zero_point): the
 * mean under another scale, rounded once, since shift >= 0. The division rounds down.
 * 255 * elements of a window << shift < 2^31. */
typedef struct {
    mct_shape x, y;
    mct_window window;
    int32_t x_zero_point, y_zero_point;
    int32_t mult_q31, shift;
    int32_t low, high;
} mct_scaled_average_pool_2d_s8_params;

void mct_scaled_average_pool_2d_s8(const mct_scaled_average_pool_2d_s8_params *p, const int8_t *x,
                                   int8_t *y, uint8_t *mask);

/* y = clamp(largest): TFLite's MAX_POOL_2D in int8. */
void mct_max_pool_2d_s8(const mct_max_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                        uint8_t *mask);

/* y[c] = clamp(sum over the image of (x - x_zero_point), requantized, + y_zero_point): TFLite's
 * MEAN over height and width in int8. The division by the count is part of the multiplier.
 * y: [c]. At most 2^16 positions. */
typedef struct {
    mct_shape x;
    int32_t x_zero_point, y_zero_point;
    int32_t mult_q31, shift;
    int32_t low, high;
} mct_mean_s8_params;

void mct_mean_s8(const mct_mean_s8_params *p, const int8_t *x, int8_t *y, uint8_t *mask);

/* y[c] = sum over the image of (x - x_zero_point), for a loss. At most 2^23 positions. */
typedef struct {
    mct_shape x;
    int32_t x_zero_point;
} mct_mean_s32_params;

void mct_mean_s32(const mct_mean_s32_params *p, const int8_t *x, int32_t *y);

/* dx = stage(sum over the windows that hold the element of dy * common / count). common is a
 * multiple of every window's count of elements; the stage divides by it.
 * mask: a bit per element of dx, or NULL. scratch: c sums (int32 for s8, int64 for s16). */
typedef struct {
    mct_shape dx, dy;
    mct_window window;
    int32_t common;
    mct_gradient_stage stage;
} mct_average_pool_2d_grad_input_s8_params;
typedef mct_average_pool_2d_grad_input_s8_params mct_average_pool_2d_grad_input_s16_params;

void mct_average_pool_2d_grad_input_s8(const mct_average_pool_2d_grad_input_s8_params *p,
                                       const mct_step *step, const int8_t *dy,
                                       const mct_exponent *dy_exponent, const uint8_t *mask,
                                       mct_exponent *exponent, int8_t *dx, int32_t *scratch);
void mct_average_pool_2d_grad_input_s16(const mct_average_pool_2d_grad_input_s16_params *p,
                                        const mct_step *step, const int16_t *dy,
                                        const mct_exponent *dy_exponent, const uint8_t *mask,
                                        mct_exponent *exponent, int16_t *dx, int64_t *scratch);

/* dx = stage(sum of dy over the windows whose first largest element, row by row, this is).
 * x: the pool's input. mask and scratch as above. */
typedef struct {
    mct_shape dx, dy;
    mct_window window;
    mct_gradient_stage stage;
} mct_max_pool_2d_grad_input_s8_params;
typedef mct_max_pool_2d_grad_input_s8_params mct_max_pool_2d_grad_input_s16_params;

void mct_max_pool_2d_grad_input_s8(const mct_max_pool_2d_grad_input_s8_params *p,
                                   const mct_step *step, const int8_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                   int32_t *scratch);
void mct_max_pool_2d_grad_input_s16(const mct_max_pool_2d_grad_input_s16_params *p,
                                    const mct_step *step, const int16_t *dy,
                                    const mct_exponent *dy_exponent, const int8_t *x,
                                    const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                    int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
