/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_gru_grad_gates_<type>. */
#include "mct_gru_step.h"
#include "mct_recurrent_back_body.h"

/* Derivatives of one unit in a step. dh: by y; carried: by the state, of the step behind, then of the
 * one before. */
static void unit_back(const mct_gru_s8_params *p, const activations *a, int32_t before,
                      int32_t state, int32_t dh, int32_t *carried, MCT_ACC *d) {
    const int32_t y = scaled_output(p, state);
    const int32_t of_y = y >= -128 && y <= 127 ? mct_back_limited(dh) : 0;
    const int32_t of_state = mct_back_limited(of_y + *carried);
    const int32_t dn = mct_back(mct_back(of_state, (1 << 15) - a->z), mct_tanh_slope(a->n));
    const int32_t dr = mct_back_limited(((int64_t)dn * a->of_h + (1 << 11)) >> 12);
    d[UPDATE_GATE * p->units] =
        mct_back(mct_back(of_state, before - a->n), mct_sigmoid_slope(a->z));
    d[RESET_GATE * p->units] = mct_back(dr, mct_sigmoid_slope(a->r));
    d[CANDIDATE * p->units] = dn;
    *carried = mct_back(of_state, a->z);
}

/* The candidate's derivatives by its products with h. */
static void reset(const int32_t *r, int32_t units, MCT_ACC *dn) {
    for (int32_t k = 0; k < units; k++) {
        dn[k] = mct_back((int32_t)dn[k], r[k]);
    }
}

void MCT_NAME(mct_gru_grad_gates)(const MCT_PARAMS(mct_gru_grad_gates) *p, const mct_step *step,
                                  const MCT_GRAD *dy, const mct_exponent *dy_exponent,
                                  const int8_t *x, const int8_t *w, const int8_t *u,
                                  const int32_t *b, const int32_t *c, const int16_t *states,
                                  const int8_t *h, const uint8_t *mask, mct_exponent *exponent,
                                  MCT_GRAD *dz, MCT_ACC *scratch) {
    const mct_gru_s8_params *layer = &p->layer;
    const int32_t units = layer->units;
    const int32_t behind = layer->is_reverse ? -1 : 1;
    int32_t *dh = (int32_t *)(scratch + GATES * units);
    int32_t *carried = dh + units;
    int32_t *r = carried + units;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t k = 0; k < 2 * units; k++) {
        dh[k] = 0;
    }
    for (int32_t t = layer->steps - 1; t >= 0; t--) {
        const int32_t row = layer->is_reverse ? layer->steps - 1 - t : t;
        const int16_t *before = t > 0 ? states + (row - behind) * units : NULL;
        const int8_t *h_before = t > 0 ? h + (row - behind) * units : NULL;
        const step_operands s = {x + row * layer->inputs, h_before, w, u, b, c};
        if (!layer->is_last || t == layer->steps - 1) {
            mct_add_gradient(dy + (layer->is_last ? 0 : row * units), units, dh);
        }
        for (int32_t k = 0; k < units; k++) {
            const activations a = activate(layer, k, &s);
            r[k] = a.r;
            unit_back(layer, &a, before == NULL ? 0 : before[k], states[row * units + k], dh[k],
                      carried + k, scratch + k);
        }
        if (p->of_h) {
            reset(r, units, scratch + CANDIDATE * units);
        }
        MCT_NAME(mct_gradient_write)(&writer, scratch, row * GATES * units, GATES * units,
                                     dz + row * GATES * units);
        if (!p->of_h) {
            reset(r, units, scratch + CANDIDATE * units);
        }
        mct_scale_back(scratch, GATES, units, p->back_mult_q31, p->back_shift);
        mct_through_state(scratch, u, GATES * units, units, p->back_bits, dh);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
