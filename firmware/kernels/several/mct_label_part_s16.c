/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_several.h"

void mct_label_part_s16(const mct_label_part_s16_params *p, const int16_t *labels, int16_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = (int16_t)labels[p->first + i];
    }
}
