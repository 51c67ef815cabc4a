/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax of each row in integers, the same bits as TFLite's reference kernel in int8.
 *
 * y = 256 * exp(d) / sum(exp(d)) - 128 with d = beta * scale * (x - max x), computed from
 * (x - max x) * 2^left_shift * mult_q31 * 2^-31 in Q5.26; below diff_min a term is 0.
 *
 * x_exponent: NULL, or scale is times 2^now; held in 0 to exponent_limit, and left_shift +
 * exponent_limit <= 30.
 * x, y: [rows][classes]; y may be x. At most 8,191 classes. */
#ifndef MCT_SOFTMAX_H
#define MCT_SOFTMAX_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, classes;
    int32_t mult_q31, left_shift;
    int32_t diff_min;
    int32_t exponent_limit;
} mct_softmax_s8_params;

void mct_softmax_s8(const mct_softmax_s8_params *p, const int8_t *x, const mct_exponent *x_exponent,
                    int8_t *y);

/* dx = stage(p * (sum(p) * dy - sum(p * dy)) / 2^15) of each row, p the probabilities in units of
 * 2^-15, computed from x as mct_softmax_s8 does; of x without an exponent.
 *
 * dy, x, dx: [rows][classes], dx may be dy   mask: a bit per element of dx, or NULL
 * scratch: `classes` terms (int32, s16: int64). At most 8,191 classes. */
typedef struct {
    int32_t rows, classes;
    int32_t mult_q31, left_shift;
    int32_t diff_min;
    mct_gradient_stage stage;
} mct_softmax_grad_input_s8_params;
typedef mct_softmax_grad_input_s8_params mct_softmax_grad_input_s16_params;

void mct_softmax_grad_input_s8(const mct_softmax_grad_input_s8_params *p, const mct_step *step,
                               const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                               const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                               int32_t *scratch);
void mct_softmax_grad_input_s16(const mct_softmax_grad_input_s16_params *p, const mct_step *step,
                                const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                                const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
