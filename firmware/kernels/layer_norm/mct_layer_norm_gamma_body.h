/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of gamma, for the bodies that apply them or add them up. MCT_NORM_PARAMS: of the kernel. */
#include "mct_layer_norm_row.h"

static void mct_gamma_sums(const MCT_NORM_PARAMS *p, const MCT_GRAD *dy, const int8_t *x,
                           MCT_ACC *sums) {
    const int32_t dropped = MCT_NORMALIZED_BITS - MCT_GAIN_BITS;
    for (int32_t c = 0; c < p->channels; c++) {
        sums[c] = 0;
    }
    for (int32_t r = 0; r < p->rows; r++) {
        const int32_t first = r * p->channels;
        const mct_layer_norm_row row =
            mct_layer_norm_begin(x + first, p->channels, p->around_mean ? NULL : &p->origin,
                                 (uint64_t)p->epsilon << p->epsilon_shift, 0);
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t exact = mct_normalized(&row, x[first + c]);
            const int32_t n = (exact + (1 << (dropped - 1))) >> dropped;
            sums[c] += (MCT_ACC)dy[first + c] * n;
        }
    }
}
