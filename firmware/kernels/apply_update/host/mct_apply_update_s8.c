/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_apply_update.h"
#include "mct_update_row.h"

void mct_apply_update_s8(const mct_apply_update_s8_params *p, const mct_step *step,
                         const int32_t *dw, const mct_exponent *exponent) {
    const mct_updater updater = mct_update_begin(&p->parameter, step, exponent, p->dropped_bits);
    for (int32_t row = 0; row < p->rows; row++) {
        const int32_t rate = p->rows_per_rate > 0 ? row / p->rows_per_rate : -1;
        const int32_t first = row * p->columns;
        mct_update_row_vector(&updater, rate, dw + first, first, p->columns, INT32_MAX);
    }
}
