/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_bias_sums.h"
#include "mct_grad_s8.h"

void mct_bias_update_s8(const mct_bias_update_s8_params *p, const mct_step *step, const int8_t *dy,
                        const mct_exponent *dy_exponent) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t c = 0; c < p->channels_out; c += MCT_LANES) {
        int32_t sums[MCT_LANES];
        const int32_t lanes = mct_min(p->channels_out - c, MCT_LANES);
        mct_bias_sums(dy + c, p->positions, p->channels_out, lanes, sums);
        mct_update_biases_s32(&updater, sums, c, lanes);
    }
}
