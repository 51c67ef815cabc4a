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

/* One direction's operands. h: the state after the last step, NULL if it is zeros */
typedef struct {
    const int8_t *x, *h, *w, *u;
    const int32_t *b;
} step_operands;

static int32_t gate_sum(const mct_lstm_s8_params *p, int32_t gate, int32_t unit,
                        const step_operands *s) {
    const int32_t row = gate * p->units + unit;
    const int32_t of_x =
        s->b[row] + mct_row_sum(s->x, p->x_zero_point, s->w + row * p->inputs, p->inputs);
    const int32_t of_h = mct_state_sum(s->h, p->y_zero_point, s->u + row * p->units, p->units);
    return mct_gate_sum(mct_requantize_q31(of_x, p->x_mult_q31[gate], p->x_shift[gate]),
                        mct_requantize_q31(of_h, p->h_mult_q31[gate], p->h_shift[gate]));
}

static int32_t next_cell(const mct_lstm_s8_params *p, int32_t cell, const int32_t *gates) {
    const int32_t kept = mct_rounding_shift(gates[FORGET_GATE] * cell, 15);
    const int32_t added =
        mct_rounding_shift(gates[INPUT_GATE] * gates[CELL_GATE], 15 + p->cell_integer_bits);
    const int32_t low = p->cell_limit == INT16_MAX ? INT16_MIN : -p->cell_limit;
    return mct_clamp(mct_saturate16(kept + added), low, p->cell_limit);
}

static void step(const mct_lstm_s8_params *p, const step_operands *s, int8_t *y, int16_t *cells) {
    for (int32_t k = 0; k < p->units; k++) {
        int32_t gates[GATES];
        for (int32_t g = 0; g < GATES; g++) {
            const int32_t sum = gate_sum(p, g, k, s);
            gates[g] = g == CELL_GATE ? mct_tanh16(sum, MCT_GATE_INTEGER_BITS) : mct_sigmoid16(sum);
        }
        const int32_t c = next_cell(p, cells[k], gates);
        cells[k] = (int16_t)c;
        const int32_t product = gates[OUTPUT_GATE] * mct_tanh16(c, p->cell_integer_bits);
        const int32_t scaled = mct_requantize_q31(product, p->hidden_mult_q31, p->hidden_shift);
        y[k] = (int8_t)mct_clamp(scaled + p->y_zero_point, -128, 127);
    }
}

void mct_lstm_s8(const mct_lstm_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                 const int32_t *b, int8_t *y, int16_t *scratch) {
    for (int32_t d = 0; d < p->directions; d++) {
        step_operands s = {x, NULL, w, u, b};
        mct_clear_state(scratch, p->units);
        for (int32_t t = 0; t < p->steps; t++) {
            const int32_t row = d != 0 || p->is_reverse ? p->steps - 1 - t : t;
            int8_t *now = p->is_last ? (int8_t *)(scratch + p->units) + (t & 1) * p->units
                                     : y + row * p->directions * p->units;
            s.x = x + row * p->inputs;
            step(p, &s, now, scratch);
            s.h = now;
        }
        if (p->is_last) {
            mct_copy_state(y, s.h, p->units);
        }
        y += p->units;
        w += GATES * p->units * p->inputs;
        u += GATES * p->units * p->units;
        b += GATES * p->units;
    }
}
