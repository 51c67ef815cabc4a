/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_dsp_bias16.h"

void mct_bias_grad_s16(const mct_bias_grad_s16_params *p, const mct_step *step, const int16_t *dy,
                       int32_t *db) {
    for (int32_t c = 0; c < p->channels_out; c += 4) {
        const int32_t columns = mct_min(p->channels_out - c, 4);
        const mct_bias16_sums sums =
            mct_bias16_sums4(dy + c, p->positions, p->channels_out, columns);
        mct_accumulate_wide_s32(&p->sum, step, sums.lane, c, columns, db + c);
    }
}
