/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_bias_sums.h"
#include "mct_grad_s8.h"
#include "mct_update_row.h"

/* mct_update_biases_s16 of `lanes` channels from c on. */
static void mct_update_differences(const mct_updater *u, mct_v32 sums, int32_t c, int32_t lanes) {
    int16_t *differences = (int16_t *)u->parameter->values + c;
    const int32_t most = MCT_BIAS_STEP_LIMIT >> -u->parameter->residual_bits;
    const mct_v32 delta = mct_v_deltas(u, c, sums, lanes, most);
    int32_t held[MCT_LANES] = {0};
    for (int32_t l = 0; l < lanes; l++) {
        held[l] = differences[l];
    }
    const mct_v32 moved = mct_v_max(mct_v_load(held) - delta, mct_v_all(-MCT_DIFFERENCE_LIMIT));
    mct_v_store(held, mct_v_min(moved, mct_v_all(MCT_DIFFERENCE_LIMIT)));
    for (int32_t l = 0; l < lanes; l++) {
        differences[l] = (int16_t)held[l];
    }
}

void mct_bias_update_difference_s8(const mct_bias_update_difference_s8_params *p,
                                   const mct_step *step, const int8_t *dy,
                                   const mct_exponent *dy_exponent) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t c = 0; c < p->channels_out; c += MCT_LANES) {
        int32_t sums[MCT_LANES];
        const int32_t lanes = mct_min(p->channels_out - c, MCT_LANES);
        mct_bias_sums(dy + c, p->positions, p->channels_out, lanes, sums);
        mct_update_differences(&updater, mct_v_load(sums), c, lanes);
    }
}
