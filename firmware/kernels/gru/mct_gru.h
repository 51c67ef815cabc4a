/* SPDX-License-Identifier: Apache-2.0 */
/* Gated recurrent units over a sequence that begins with zeros:
 *   h = y = sigmoid(z) * h + (1 - sigmoid(z)) * tanh(n)
 * where z and r are, in Q3.12,
 *   sat(sat(scaled(sum (x - x_zero_point) * w + b)) + scaled(sum (y - y_zero_point) * u))
 * and n is sat(sat(scaled(sum (x - x_zero_point) * w + b))
 *              + sigmoid(r) * sat(scaled(sum (y - y_zero_point) * u + c))), y of the step before.
 *
 * x: [steps][inputs]   w: [directions][3][units][inputs]   u: [directions][3][units][units]
 * b: [directions][3][units]   c: [directions][units]   gates in the order z, r, n
 * y: [steps][directions][units], not upon x; is_last: [directions][units], of the last step alone.
 * The second of two directions runs from the last row to the first, and so does the first one if
 * is_reverse.
 * states: [steps][directions][units], h of each step, int16, Q0.15; h: [steps][directions][units], y of
 * each step if is_last; NULL if they are not saved. scratch: h, [units]; is_last: and int8 [2][units].
 * *_mult_q31, *_shift: of each gate. Sums fit int32 (Gru.bounds). */
#ifndef MCT_GRU_H
#define MCT_GRU_H

#include "mct_gradient.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t steps, inputs, units;
    int32_t directions, is_reverse, is_last;
    int32_t x_zero_point;
    const int32_t *x_mult_q31;
    const int8_t *x_shift;
    const int32_t *h_mult_q31;
    const int8_t *h_shift;
    int32_t hidden_mult_q31, hidden_shift;
    int32_t y_zero_point;
} mct_gru_s8_params;

void mct_gru_s8(const mct_gru_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                const int32_t *b, const int32_t *c, int8_t *y, int16_t *states, int8_t *h,
                int16_t *scratch);

/* dz: the derivative by the sums of products with x of all gates, of_h: with h: [steps][3][units], of
 * one direction. dy: [steps][units]; is_last: [units]. states, h: as the layer saved them, h is y where
 * it is not is_last. Gates are computed again, from the last step on.
 * back_mult_q31, back_shift: the derivative of y by y of the step before is that of a gate's sum with h,
 * times u, and this, back_bits behind the point.
 * scratch: the derivatives of 3 * units gates (int32, s16: int64), then int32 [3][units] */
typedef struct {
    mct_gru_s8_params layer;
    int32_t of_h;
    const int32_t *back_mult_q31;
    const int8_t *back_shift;
    int32_t back_bits;
    mct_gradient_stage stage;
} mct_gru_grad_gates_s8_params;
typedef mct_gru_grad_gates_s8_params mct_gru_grad_gates_s16_params;

void mct_gru_grad_gates_s8(const mct_gru_grad_gates_s8_params *p, const mct_step *step,
                           const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                           const int8_t *w, const int8_t *u, const int32_t *b, const int32_t *c,
                           const int16_t *states, const int8_t *h, const uint8_t *mask,
                           mct_exponent *exponent, int8_t *dz, int32_t *scratch);
void mct_gru_grad_gates_s16(const mct_gru_grad_gates_s16_params *p, const mct_step *step,
                            const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                            const int8_t *w, const int8_t *u, const int32_t *b, const int32_t *c,
                            const int16_t *states, const int8_t *h, const uint8_t *mask,
                            mct_exponent *exponent, int16_t *dz, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
