/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_apply_update.h"

void mct_apply_update_s16(const mct_apply_update_s16_params *p, const mct_step *step,
                          const int32_t *db, const mct_exponent *exponent) {
    const mct_updater updater = mct_update_begin(&p->parameter, step, exponent, p->dropped_bits);
    mct_update_biases_s16(&updater, db, 0, p->columns);
}
