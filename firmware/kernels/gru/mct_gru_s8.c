/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_gru.h"

#include "mct_recurrent.h"

enum {
    UPDATE_GATE,
    RESET_GATE,
    CANDIDATE,
    GATES
};

/* One direction's operands. h: y of the last step, NULL if it is zeros */
typedef struct {
    const int8_t *x, *h, *w, *u;
    const int32_t *b, *c;
} step_operands;

static int32_t part_of_x(const mct_gru_s8_params *p, int32_t gate, int32_t unit,
                         const step_operands *s) {
    const int32_t row = gate * p->units + unit;
    const int32_t sum =
        s->b[row] + mct_row_sum(s->x, p->x_zero_point, s->w + row * p->inputs, p->inputs);
    return mct_requantize_q31(sum, p->x_mult_q31[gate], p->x_shift[gate]);
}

static int32_t part_of_h(const mct_gru_s8_params *p, int32_t gate, int32_t unit, int32_t bias,
                         const step_operands *s) {
    const int8_t *row = s->u + (gate * p->units + unit) * p->units;
    const int32_t sum = bias + mct_state_sum(s->h, p->y_zero_point, row, p->units);
    return mct_requantize_q31(sum, p->h_mult_q31[gate], p->h_shift[gate]);
}

static int32_t gate_of(const mct_gru_s8_params *p, int32_t gate, int32_t unit,
                       const step_operands *s) {
    return mct_sigmoid16(mct_gate_sum(part_of_x(p, gate, unit, s), part_of_h(p, gate, unit, 0, s)));
}

static void step(const mct_gru_s8_params *p, const step_operands *s, int8_t *y, int16_t *state) {
    for (int32_t k = 0; k < p->units; k++) {
        const int32_t z = gate_of(p, UPDATE_GATE, k, s);
        const int32_t r = gate_of(p, RESET_GATE, k, s);
        const int32_t of_h = mct_saturate16(part_of_h(p, CANDIDATE, k, s->c[k], s));
        const int32_t n = mct_tanh16(
            mct_gate_sum(part_of_x(p, CANDIDATE, k, s), mct_rounding_shift(r * of_h, 15)),
            MCT_GATE_INTEGER_BITS);
        const int32_t h = mct_rounding_shift(z * state[k] + ((1 << 15) - z) * n, 15);
        state[k] = (int16_t)h;
        const int32_t scaled = mct_requantize_q31(h, p->hidden_mult_q31, p->hidden_shift);
        y[k] = (int8_t)mct_clamp(scaled + p->y_zero_point, -128, 127);
    }
}

void mct_gru_s8(const mct_gru_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                const int32_t *b, const int32_t *c, int8_t *y, int16_t *scratch) {
    for (int32_t d = 0; d < p->directions; d++) {
        step_operands s = {x, NULL, w, u, b, c};
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
        c += p->units;
    }
}
