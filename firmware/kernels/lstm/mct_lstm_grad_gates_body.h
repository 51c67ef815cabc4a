/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_lstm_grad_gates_<type>. */
#include "mct_lstm_step.h"
#include "mct_recurrent_back_body.h"

/* Derivatives of one unit in a step. dh: by y; carried: by c, of the step behind, then of the one
 * before. */
static void unit_back(const mct_lstm_s8_params *p, const int32_t *gates, int32_t before, int32_t c,
                      int32_t dh, int32_t *carried, MCT_ACC *d) {
    const int32_t bits = p->cell_integer_bits;
    const int32_t tanh_c = mct_tanh16(c, bits);
    const int32_t y = scaled_output(p, gates[OUTPUT_GATE], tanh_c);
    const int32_t of_y = y >= -128 && y <= 127 ? mct_back_limited(dh) : 0;
    const int32_t of_c = mct_back(mct_back(of_y, gates[OUTPUT_GATE]), mct_tanh_slope(tanh_c));
    const int32_t sum = cell_sum(p, before, gates);
    const int32_t passes = sum >= -p->cell_limit && sum <= largest_cell(p);
    const int32_t dc = passes ? mct_back_limited(*carried + of_c) : 0;
    const int32_t of_before =
        mct_back_limited(((int64_t)dc * before + (1 << (14 - bits))) >> (15 - bits));
    d[INPUT_GATE * p->units] =
        mct_back(mct_back(dc, gates[CELL_GATE]), mct_sigmoid_slope(gates[INPUT_GATE]));
    d[FORGET_GATE * p->units] = mct_back(of_before, mct_sigmoid_slope(gates[FORGET_GATE]));
    d[CELL_GATE * p->units] =
        mct_back(mct_back(dc, gates[INPUT_GATE]), mct_tanh_slope(gates[CELL_GATE]));
    d[OUTPUT_GATE * p->units] =
        mct_back(mct_back(of_y, tanh_c), mct_sigmoid_slope(gates[OUTPUT_GATE]));
    *carried = mct_back(dc, gates[FORGET_GATE]);
}

void MCT_NAME(mct_lstm_grad_gates)(const MCT_PARAMS(mct_lstm_grad_gates) *p, const mct_step *step,
                                   const MCT_GRAD *dy, const mct_exponent *dy_exponent,
                                   const int8_t *x, const int8_t *w, const int8_t *u,
                                   const int32_t *b, const int16_t *cells, const int8_t *h,
                                   const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dz,
                                   MCT_ACC *scratch) {
    const mct_lstm_s8_params *layer = &p->layer;
    const int32_t units = layer->units;
    const int32_t behind = layer->is_reverse ? -1 : 1;
    int32_t *dh = (int32_t *)(scratch + GATES * units);
    int32_t *carried = dh + units;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t k = 0; k < 2 * units; k++) {
        dh[k] = 0;
    }
    for (int32_t t = layer->steps - 1; t >= 0; t--) {
        const int32_t row = layer->is_reverse ? layer->steps - 1 - t : t;
        const int16_t *before = t > 0 ? cells + (row - behind) * units : NULL;
        const int8_t *h_before = t > 0 ? h + (row - behind) * units : NULL;
        const step_operands s = {x + row * layer->inputs, h_before, w, u, b};
        if (!layer->is_last || t == layer->steps - 1) {
            mct_add_gradient(dy + (layer->is_last ? 0 : row * units), units, dh);
        }
        for (int32_t k = 0; k < units; k++) {
            int32_t gates[GATES];
            activate(layer, k, &s, gates);
            unit_back(layer, gates, before == NULL ? 0 : before[k], cells[row * units + k], dh[k],
                      carried + k, scratch + k);
        }
        MCT_NAME(mct_gradient_write)(&writer, scratch, row * GATES * units, GATES * units,
                                     dz + row * GATES * units);
        mct_scale_back(scratch, GATES, units, p->back_mult_q31, p->back_shift);
        mct_through_state(scratch, u, GATES * units, units, p->back_bits, dh);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
