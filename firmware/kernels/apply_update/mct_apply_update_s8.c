/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_apply_update.h"

void mct_apply_update_s8(const mct_apply_update_s8_params *p, const mct_step *step,
                         const int32_t *dw, const mct_exponent *exponent) {
    const mct_updater updater = mct_update_begin(&p->parameter, step, exponent, p->dropped_bits);
    for (int32_t row = 0; row < p->rows; row++) {
        const int32_t first = row * p->columns;
        if (p->rows_per_rate > 0) {
            mct_update_row_s8(&updater, row / p->rows_per_rate, dw + first, first, p->columns);
        } else {
            mct_update_channels_s8(&updater, dw + first, first, p->columns);
        }
    }
}
