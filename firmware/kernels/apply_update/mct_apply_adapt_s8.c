/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_apply_update.h"

void mct_apply_adapt_s8(const mct_apply_adapt_s8_params *p, const mct_step *step, const int32_t *dw,
                        const mct_exponent *exponent, int32_t *scratch) {
    const mct_updater updater = mct_update_begin(&p->parameter, step, exponent, p->dropped_bits);
    const int32_t in_row = p->rows_per_rate > 0;
    const int32_t count = in_row ? p->rows_per_rate * p->columns : p->rows;
    const int32_t channels = in_row ? p->rows / p->rows_per_rate : p->columns;
    for (int32_t c = 0; c < channels; c++) {
        const mct_channel channel = {c, in_row ? c * count : c, in_row ? 1 : p->columns, count};
        for (int32_t j = 0; j < count; j++) {
            scratch[j] = dw[channel.first + j * channel.stride];
        }
        mct_adapt_s8(&updater, &p->rule, channel, scratch);
    }
}
