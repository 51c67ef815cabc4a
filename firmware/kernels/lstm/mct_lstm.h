/* SPDX-License-Identifier: Apache-2.0 */
/* Long short-term memory over a sequence that begins with zeros:
 *   c = sigmoid(f) * c + sigmoid(i) * tanh(g)     h = y = sigmoid(o) * tanh(c)
 * where each of the gates i, f, g, o is, in Q3.12,
 *   sat(sat(scaled(sum (x - x_zero_point) * w + b)) + scaled(sum (h - y_zero_point) * u)).
 *
 * x: [steps][inputs]   w: [directions][4][units][inputs]   u: [directions][4][units][units]
 * b: [directions][4][units]   y: [steps][directions][units], not upon x; is_last: [directions]
 * [units], of the last step alone. The second of two directions runs from the last row to the
 * first, and so does the first one if is_reverse.
 * c: int16 with cell_integer_bits (0 to 6) before the point, within +-cell_limit (32768: all of int16).
 * cells: [steps][directions][units], c of each step; h: [steps][directions][units], y of each step if
 * is_last; NULL if they are not saved. scratch: c, [units]; is_last: and int8 [2][units].
 * *_mult_q31, *_shift: of each gate. Sums fit int32 (Lstm.bounds). */
#ifndef MCT_LSTM_H
#define MCT_LSTM_H

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
    int32_t cell_integer_bits, cell_limit;
    int32_t hidden_mult_q31, hidden_shift;
    int32_t y_zero_point;
} mct_lstm_s8_params;

void mct_lstm_s8(const mct_lstm_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                 const int32_t *b, int8_t *y, int16_t *cells, int8_t *h, int16_t *scratch);

/* dz: the derivative by the sums of products with x, and so by those with h, of all gates:
 * [steps][4][units], of one direction. dy: [steps][units]; is_last: [units]. cells, h: as the layer
 * saved them, h is y where it is not is_last. Gates are computed again, from the last step on.
 * back_mult_q31, back_shift: the derivative of y by y of the step before is that of a gate's sum,
 * times u, and this, back_bits behind the point.
 * scratch: the derivatives of 4 * units gates (int32, s16: int64), then int32 [2][units] */
typedef struct {
    mct_lstm_s8_params layer;
    const int32_t *back_mult_q31;
    const int8_t *back_shift;
    int32_t back_bits;
    mct_gradient_stage stage;
} mct_lstm_grad_gates_s8_params;
typedef mct_lstm_grad_gates_s8_params mct_lstm_grad_gates_s16_params;

void mct_lstm_grad_gates_s8(const mct_lstm_grad_gates_s8_params *p, const mct_step *step,
                            const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                            const int8_t *w, const int8_t *u, const int32_t *b,
                            const int16_t *cells, const int8_t *h, const uint8_t *mask,
                            mct_exponent *exponent, int8_t *dz, int32_t *scratch);
void mct_lstm_grad_gates_s16(const mct_lstm_grad_gates_s16_params *p, const mct_step *step,
                             const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                             const int8_t *w, const int8_t *u, const int32_t *b,
                             const int16_t *cells, const int8_t *h, const uint8_t *mask,
                             mct_exponent *exponent, int16_t *dz, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
