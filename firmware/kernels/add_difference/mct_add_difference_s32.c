/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_difference.h"

#include "mct_fixedpoint.h"
#include "mct_update.h"

void mct_add_difference_s32(const mct_add_difference_s32_params *p, const int32_t *frozen,
                            const int16_t *difference, int32_t *b) {
    const int32_t unit = 1 << p->shift;
    for (int32_t c = 0; c < p->channels; c++) {
        b[c] = mct_clamp(frozen[c] + difference[c] * unit, -MCT_BIAS_LIMIT, MCT_BIAS_LIMIT);
    }
}
