/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp(sum over k of (a - a_zero_point) * (b - b_zero_point) * mult_q31 * 2^(shift - 31) +
 * y_zero_point, low, high): TFLite's BATCH_MATMUL in int8, with its reference kernel's rounding; and
 * its gradients.
 *
 * y: [matrices][rows][columns]; number i, j of a matrix is the sum over k < depth of products of
 * number i * a_row + k * a_depth of a's and j * b_column + k * b_depth of b's, which have
 * rows * depth and depth * columns numbers. Nothing may overlap. mask: where y did not clamp, or NULL.
 * 255 * 255 * depth * 2^max(shift, 0) must fit int32: depth <= 33,025. */
#ifndef MCT_BATCH_MATMUL_H
#define MCT_BATCH_MATMUL_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t matrices, rows, columns, depth;
    int32_t a_row, a_depth, b_column, b_depth;
    int32_t a_zero_point, b_zero_point, y_zero_point;
    int32_t mult_q31, shift;
    int32_t low, high;
} mct_batch_matmul_s8_params;

void mct_batch_matmul_s8(const mct_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b,
                         int8_t *y, uint8_t *mask);

/* dx = stage(sum over depth of dy * (other - zero_point)), of either operand.
 *
 * dx: [matrices][rows][columns]; number i, j of a matrix is the sum over k < depth of products of
 * number i * dy_row + j * dy_column + k * dy_depth of dy's, which has dy_matrix numbers, and likewise
 * of the other operand's. One of both has the rows of dx and the other one the columns: dy_column and
 * other_row are 0, or dy_row and other_column are. mask: a bit per element of dx, or NULL. scratch:
 * `columns` sums (int32, s16: int64). |sum| <= depth * 127 * 255 must be below 2^31 for s8, which is a
 * depth of 66,311; wide_s8 sums in int64 and then saturates. */
typedef struct {
    int32_t matrices, rows, columns, depth;
    int32_t dy_row, dy_column, dy_depth, dy_matrix;
    int32_t other_row, other_column, other_depth, other_matrix;
    int32_t zero_point;
    mct_gradient_stage stage;
} mct_batch_matmul_grad_input_s8_params;
typedef mct_batch_matmul_grad_input_s8_params mct_batch_matmul_grad_input_wide_s8_params;
typedef mct_batch_matmul_grad_input_s8_params mct_batch_matmul_grad_input_s16_params;

void mct_batch_matmul_grad_input_s8(const mct_batch_matmul_grad_input_s8_params *p,
                                    const mct_step *step, const int8_t *dy,
                                    const mct_exponent *dy_exponent, const int8_t *other,
                                    const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                    int32_t *scratch);
void mct_batch_matmul_grad_input_wide_s8(const mct_batch_matmul_grad_input_wide_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *other,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int64_t *scratch);
void mct_batch_matmul_grad_input_s16(const mct_batch_matmul_grad_input_s16_params *p,
                                     const mct_step *step, const int16_t *dy,
                                     const mct_exponent *dy_exponent, const int8_t *other,
                                     const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                     int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
