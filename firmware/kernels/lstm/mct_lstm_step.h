/* SPDX-License-Identifier: Apache-2.0 */
/* A step of an LSTM, which its gradient computes again. */
#ifndef MCT_LSTM_STEP_H
#define MCT_LSTM_STEP_H

#include "mct_lstm.h"

#include "mct_recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

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

static inline int32_t gate_sum(const mct_lstm_s8_params *p, int32_t gate, int32_t unit,
                               const step_operands *s) {
    const int32_t row = gate * p->units + unit;
    const int32_t of_x =
        s->b[row] + mct_row_sum(s->x, p->x_zero_point, s->w + row * p->inputs, p->inputs);
    const int32_t of_h = mct_state_sum(s->h, p->y_zero_point, s->u + row * p->units, p->units);
    return mct_gate_sum(mct_scale_gate(of_x, p->x_mult_q31[gate], p->x_shift[gate]),
                        mct_scale_gate(of_h, p->h_mult_q31[gate], p->h_shift[gate]));
}

/* All gates of a unit. */
static inline void activate(const mct_lstm_s8_params *p, int32_t unit, const step_operands *s,
                            int32_t *gates) {
    for (int32_t g = 0; g < GATES; g++) {
        const int32_t sum = gate_sum(p, g, unit, s);
        gates[g] = g == CELL_GATE ? mct_tanh16(sum, MCT_GATE_INTEGER_BITS) : mct_sigmoid16(sum);
    }
}

/* The next cell state before it is limited. */
static inline int32_t cell_sum(const mct_lstm_s8_params *p, int32_t cell, const int32_t *gates) {
    const int32_t kept = mct_rounding_shift(gates[FORGET_GATE] * cell, 15);
    const int32_t added =
        mct_rounding_shift(gates[INPUT_GATE] * gates[CELL_GATE], 15 + p->cell_integer_bits);
    return kept + added;
}

static inline int32_t largest_cell(const mct_lstm_s8_params *p) {
    return p->cell_limit > INT16_MAX ? INT16_MAX : p->cell_limit;
}

/* y before it is clamped */
static inline int32_t scaled_output(const mct_lstm_s8_params *p, int32_t output, int32_t tanh_c) {
    const int32_t scaled = mct_requantize_q31(output * tanh_c, p->hidden_mult_q31, p->hidden_shift);
    return scaled + p->y_zero_point;
}

#ifdef __cplusplus
}
#endif
#endif
