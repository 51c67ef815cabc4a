/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_dsp_bias16.h"
#include "mct_gradient.h"

void mct_bias_update_difference_s16(const mct_bias_update_difference_s16_params *p,
                                    const mct_step *step, const int16_t *dy,
                                    const mct_exponent *dy_exponent) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS_S16);
    for (int32_t c = 0; c < p->channels_out; c += 4) {
        const int32_t columns = mct_min(p->channels_out - c, 4);
        const mct_bias16_sums sums =
            mct_bias16_sums4(dy + c, p->positions, p->channels_out, columns);
        mct_update_biases_wide_s16(&updater, sums.lane, c, columns);
    }
}
