/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_several.h"

void mct_label_part_s32(const mct_label_part_s32_params *p, const int16_t *labels, int32_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = (int32_t)labels[p->first + i];
    }
}
