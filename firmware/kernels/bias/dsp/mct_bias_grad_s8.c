/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_dsp_bias.h"

void mct_bias_grad_s8(const mct_bias_grad_s8_params *p, const mct_step *step, const int8_t *dy,
                      int32_t *db) {
    for (int32_t c = 0; c < p->channels_out; c += 4) {
        const int32_t columns = mct_min(p->channels_out - c, 4);
        const mct_sums4 sums = mct_bias_sums4(dy + c, p->positions, p->channels_out, columns);
        mct_accumulate_s32(step, sums.lane, columns, db + c);
    }
}
