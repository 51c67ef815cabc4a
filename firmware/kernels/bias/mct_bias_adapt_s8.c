/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_grad_s8.h"

#include "mct_bias_sum_body.h"

void mct_bias_adapt_s8(const mct_bias_adapt_s8_params *p, const mct_step *step, const int8_t *dy,
                       const mct_exponent *dy_exponent) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t c = 0; c < p->channels_out; c++) {
        const int32_t sum = mct_bias_sum(dy, p->positions, p->channels_out, c);
        mct_adapt_bias_s32(&updater, &p->rule, c, sum);
    }
}
