#include "mct_apply_update.h"

void mct_apply_update_s8(const mct_apply_update_s8_params *p, const mct_step *step,
                         const int32_t *dw, const mct_exponent *exponent, int8_t *w,
                         uint8_t *residual) {
    const mct_updater updater = mct_update_begin(&p->rule, step, exponent, p->dropped_bits);
    for (int32_t row = 0; row < p->rows; row++) {
        const int32_t rate = p->rows_per_rate > 0 ? row / p->rows_per_rate : -1;
        mct_update_row_s8(&updater, dw + row * p->columns, row * p->columns, p->columns, rate,
                          w + row * p->columns, residual);
    }
}
