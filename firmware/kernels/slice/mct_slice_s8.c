/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_slice.h"

#include <string.h>

void mct_slice_s8(const mct_slice_s8_params *p, const int8_t *x, int8_t *y) {
    const int8_t *first = x + p->skipped_rows * p->row_elements + p->skipped;
    for (int32_t i = 0; i < p->rows; i++) {
        for (int32_t j = 0; j < p->columns; j++) {
            const int8_t *from = first + i * p->row_stride + j * p->column_stride;
            if (p->channel_stride == 1) {
                memcpy(y, from, (size_t)p->channels);
                y += p->channels;
                continue;
            }
            for (int32_t k = 0; k < p->channels; k++) {
                *y++ = from[k * p->channel_stride];
            }
        }
    }
}
