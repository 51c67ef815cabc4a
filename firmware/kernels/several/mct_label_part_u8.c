/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_several.h"

void mct_label_part_u8(const mct_label_part_u8_params *p, const int16_t *labels, uint8_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = (uint8_t)labels[p->first + i];
    }
}
