/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_bias_sums.h"
#include "mct_grad_s8.h"
#include "mct_update_row.h"

/* mct_update_biases_s32 of `lanes` channels from c on. */
static void mct_update_biases(const mct_updater *u, mct_v32 sums, int32_t c, int32_t lanes) {
    int32_t *biases = (int32_t *)u->parameter->values + c;
    int32_t deltas[MCT_LANES];
    mct_v_store(deltas, mct_v_deltas(u, c, sums, lanes, MCT_BIAS_STEP_LIMIT));
    for (int32_t l = 0; l < lanes; l++) {
        const int64_t moved = (int64_t)biases[l] - deltas[l];
        biases[l] = (int32_t)mct_clamp64(moved, -MCT_BIAS_LIMIT, MCT_BIAS_LIMIT);
    }
}

void mct_bias_update_s8(const mct_bias_update_s8_params *p, const mct_step *step, const int8_t *dy,
                        const mct_exponent *dy_exponent) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t c = 0; c < p->channels_out; c += MCT_LANES) {
        int32_t sums[MCT_LANES];
        const int32_t lanes = mct_min(p->channels_out - c, MCT_LANES);
        mct_bias_sums(dy + c, p->positions, p->channels_out, lanes, sums);
        mct_update_biases(&updater, mct_v_load(sums), c, lanes);
    }
}
