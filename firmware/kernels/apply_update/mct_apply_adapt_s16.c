/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_apply_update.h"

void mct_apply_adapt_s16(const mct_apply_adapt_s16_params *p, const mct_step *step,
                         const int32_t *db, const mct_exponent *exponent, int32_t *scratch) {
    const mct_updater updater = mct_update_begin(&p->parameter, step, exponent, p->dropped_bits);
    (void)scratch;
    for (int32_t c = 0; c < p->columns; c++) {
        mct_adapt_bias_s16(&updater, &p->rule, c, db[c]);
    }
}
