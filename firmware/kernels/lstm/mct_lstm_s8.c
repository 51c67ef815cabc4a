/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_lstm.h"

#include "mct_recurrent.h"

enum {
    INPUT_GATE,
    FORGET_GATE,
    CELL_GATE,
    OUTPUT_GATE,
    GATES
};

/* Beyond it a second part saturates the sum of 16 bits, whatever the first is. */
#define MCT_LSTM_REACH 65536

/* h: the state after the last step, NULL if it is zeros */
static int32_t gate_sum(const mct_lstm_s8_params *p, int32_t gate, int32_t unit, const int8_t *x,
                        const int8_t *h, const int8_t *w, const int8_t *u, const int32_t *b) {
    const int32_t row = gate * p->units + unit;
    const int32_t of_x = b[row] + mct_row_sum(x, p->x_zero_point, w + row * p->inputs, p->inputs);
    const int32_t first =
        mct_saturate16(mct_requantize_q31(of_x, p->x_mult_q31[gate], p->x_shift[gate]));
    if (h == NULL) {
        return first;
    }
    const int32_t of_h = mct_row_sum(h, p->y_zero_point, u + row * p->units, p->units);
    const int32_t second = mct_requantize_q31(of_h, p->h_mult_q31[gate], p->h_shift[gate]);
    return mct_saturate16(first + mct_clamp(second, -MCT_LSTM_REACH, MCT_LSTM_REACH));
}

void mct_lstm_s8(const mct_lstm_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                 const int32_t *b, int8_t *y, int16_t *scratch) {
    const int8_t *h = NULL;
    for (int32_t k = 0; k < p->units; k++) {
        scratch[k] = 0;
    }
    for (int32_t t = 0; t < p->steps; t++) {
        for (int32_t k = 0; k < p->units; k++) {
            int32_t gates[GATES];
            for (int32_t g = 0; g < GATES; g++) {
                const int32_t sum = gate_sum(p, g, k, x, h, w, u, b);
                gates[g] =
                    g == CELL_GATE ? mct_tanh16(sum, MCT_GATE_INTEGER_BITS) : mct_sigmoid16(sum);
            }
            const int32_t kept = mct_rounding_shift(gates[FORGET_GATE] * scratch[k], 15);
            const int32_t added =
                mct_rounding_shift(gates[INPUT_GATE] * gates[CELL_GATE], 15 + p->cell_integer_bits);
            const int32_t low = p->cell_limit == INT16_MAX ? INT16_MIN : -p->cell_limit;
            const int32_t c = mct_clamp(mct_saturate16(kept + added), low, p->cell_limit);
            scratch[k] = (int16_t)c;
            const int32_t product = gates[OUTPUT_GATE] * mct_tanh16(c, p->cell_integer_bits);
            const int32_t scaled = mct_requantize_q31(product, p->hidden_mult_q31, p->hidden_shift);
            y[k] = (int8_t)mct_clamp(scaled + p->y_zero_point, -128, 127);
        }
        h = y;
        y += p->units;
        x += p->inputs;
    }
}
