/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_bias_grad_<type>. */
#include "mct_bias_sum_body.h"

void MCT_NAME(mct_bias_grad)(const MCT_PARAMS(mct_bias_grad) *p, const mct_step *step,
                             const MCT_GRAD *dy, int32_t *db) {
    for (int32_t c = 0; c < p->channels_out; c++) {
        const MCT_ACC sum = mct_bias_sum(dy, p->positions, p->channels_out, c);
        MCT_ACCUMULATE(p, step, &sum, c, 1, db + c);
    }
}
