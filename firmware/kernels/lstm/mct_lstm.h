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
 * scratch: the cell state, [units], int16 with cell_integer_bits (0 to 6) before the point, within
 * +-cell_limit (32767: no limit); is_last: and int8 [2][units].
 * *_mult_q31, *_shift: of each gate. Sums, and what they become, fit int32 (Lstm.bounds). */
#ifndef MCT_LSTM_H
#define MCT_LSTM_H

#include "mct_types.h"

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
                 const int32_t *b, int8_t *y, int16_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
