/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a GRU, which its gradient computes again. */
#ifndef MCT_GRU_STEP_H
#define MCT_GRU_STEP_H

#include "mct_gru.h"

#include "mct_recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

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

static inline int32_t part_of_x(const mct_gru_s8_params *p, int32_t gate, int32_t unit,
                                const step_operands *s) {
    const int32_t row = gate * p->units + unit;
    const int32_t sum =
        s->b[row] + mct_row_sum(s->x, p->x_zero_point, s->w + row * p->inputs, p->inputs);
    return mct_scale_gate(sum, p->x_mult_q31[gate], p->x_shift[gate]);
}

static inline int32_t part_of_h(const mct_gru_s8_params *p, int32_t gate, int32_t unit,
                                int32_t bias, const step_operands *s) {
    const int8_t *row = s->u + (gate * p->units + unit) * p->units;
    const int32_t sum = bias + mct_state_sum(s->h, p->y_zero_point, row, p->units);
    return mct_scale_gate(sum, p->h_mult_q31[gate], p->h_shift[gate]);
}

static inline int32_t gate_of(const mct_gru_s8_params *p, int32_t gate, int32_t unit,
                              const step_operands *s) {
    return mct_sigmoid16(mct_gate_sum(part_of_x(p, gate, unit, s), part_of_h(p, gate, unit, 0, s)));
}

/* What a unit's candidate is made of. */
typedef struct {
    int32_t z, r, n;
    int32_t of_h; /* products with h, Q3.12 */
} activations;

static inline activations activate(const mct_gru_s8_params *p, int32_t unit,
                                   const step_operands *s) {
    activations a;
    a.z = gate_of(p, UPDATE_GATE, unit, s);
    a.r = gate_of(p, RESET_GATE, unit, s);
    a.of_h = mct_saturate16(part_of_h(p, CANDIDATE, unit, s->c[unit], s));
    a.n = mct_tanh16(
        mct_gate_sum(part_of_x(p, CANDIDATE, unit, s), mct_rounding_shift(a.r * a.of_h, 15)),
        MCT_GATE_INTEGER_BITS);
    return a;
}

/* y before it is clamped */
static inline int32_t scaled_output(const mct_gru_s8_params *p, int32_t state) {
    return mct_requantize_q31(state, p->hidden_mult_q31, p->hidden_shift) + p->y_zero_point;
}

#ifdef __cplusplus
}
#endif
#endif
