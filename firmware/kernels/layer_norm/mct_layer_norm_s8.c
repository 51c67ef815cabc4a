/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_layer_norm.h"

#include "mct_layer_norm_row.h"

#define MCT_HALF_STEP (INT64_C(1) << (MCT_NORMALIZED_BITS + MCT_PARAMETER_BITS - 1))

void mct_layer_norm_s8(const mct_layer_norm_s8_params *p, const int8_t *x, const int32_t *gamma,
                       const int32_t *beta, int8_t *y, uint8_t *mask) {
    for (int32_t r = 0; r < p->rows; r++) {
        const int32_t first = r * p->channels;
        const mct_layer_norm_row row =
            mct_layer_norm_begin(x + first, p->channels, p->around_mean ? NULL : &p->origin,
                                 (uint64_t)p->epsilon << p->epsilon_shift, 0);
        for (int32_t c = 0; c < p->channels; c++) {
            const int64_t shift = (int64_t)beta[c] * (1 << MCT_NORMALIZED_BITS);
            const int64_t scaled = (int64_t)mct_normalized(&row, x[first + c]) * gamma[c];
            const int32_t value = (int32_t)((scaled + shift + MCT_HALF_STEP) >>
                                            (MCT_NORMALIZED_BITS + MCT_PARAMETER_BITS));
            mct_clamp_store(value + p->y_zero_point, p->low, p->high, first + c, y, mask);
        }
    }
}
