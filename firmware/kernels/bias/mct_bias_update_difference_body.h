/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_bias_update_difference_<type>. */
#include "mct_bias_sum_body.h"

void MCT_NAME(mct_bias_update_difference)(const MCT_PARAMS(mct_bias_update_difference) *p,
                                          const mct_step *step, const MCT_GRAD *dy,
                                          const mct_exponent *dy_exponent) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t c = 0; c < p->channels_out; c++) {
        const MCT_ACC sum = mct_bias_sum(dy, p->positions, p->channels_out, c);
        MCT_UPDATE_DIFFERENCES(&updater, &sum, c, 1);
    }
}
