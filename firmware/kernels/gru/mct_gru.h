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
 * scratch: h, [units], int16, Q0.15; is_last: and int8 [2][units].
 * *_mult_q31, *_shift: of each gate. Sums, and what they become, fit int32 (Gru.bounds). */
#ifndef MCT_GRU_H
#define MCT_GRU_H

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
    int32_t hidden_mult_q31, hidden_shift;
    int32_t y_zero_point;
} mct_gru_s8_params;

void mct_gru_s8(const mct_gru_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                const int32_t *b, const int32_t *c, int8_t *y, int16_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
