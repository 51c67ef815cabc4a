/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_lstm_step.h"

static void step(const mct_lstm_s8_params *p, const step_operands *s, int8_t *y, int16_t *cells) {
    for (int32_t k = 0; k < p->units; k++) {
        int32_t gates[GATES];
        activate(p, k, s, gates);
        const int32_t c = mct_clamp(cell_sum(p, cells[k], gates), -p->cell_limit, largest_cell(p));
        cells[k] = (int16_t)c;
        const int32_t value =
            scaled_output(p, gates[OUTPUT_GATE], mct_tanh16(c, p->cell_integer_bits));
        y[k] = (int8_t)mct_clamp(value, -128, 127);
    }
}

void mct_lstm_s8(const mct_lstm_s8_params *p, const int8_t *x, const int8_t *w, const int8_t *u,
                 const int32_t *b, int8_t *y, int16_t *cells, int8_t *h, int16_t *scratch) {
    const int32_t width = p->directions * p->units;
    int8_t *each = p->is_last ? h : y;
    for (int32_t first = 0; first < width; first += p->units) {
        step_operands s = {x, NULL, w, u, b};
        mct_clear_state(scratch, p->units);
        for (int32_t t = 0; t < p->steps; t++) {
            const int32_t row = first != 0 || p->is_reverse ? p->steps - 1 - t : t;
            const int32_t at = row * width + first;
            int8_t *now =
                each != NULL ? each + at : (int8_t *)(scratch + p->units) + (t & 1) * p->units;
            s.x = x + row * p->inputs;
            step(p, &s, now, scratch);
            s.h = now;
            if (cells != NULL) {
                mct_keep_state(cells + at, scratch, p->units);
            }
        }
        if (p->is_last) {
            mct_copy_state(y + first, s.h, p->units);
        }
        w += GATES * p->units * p->inputs;
        u += GATES * p->units * p->units;
        b += GATES * p->units;
    }
}
