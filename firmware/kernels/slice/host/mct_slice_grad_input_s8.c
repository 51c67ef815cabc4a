/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_slice.h"

#include <string.h>

void mct_slice_grad_input_s8(const mct_slice_grad_input_s8_params *p, const int8_t *dy,
                             int8_t *dx) {
    int8_t *first = dx + p->skipped_rows * p->row_elements + p->skipped;
    memset(dx, 0, (size_t)p->elements);
    for (int32_t i = 0; i < p->rows; i++) {
        for (int32_t j = 0; j < p->columns; j++) {
            int8_t *to = first + i * p->row_stride + j * p->column_stride;
            if (p->channel_stride == 1) {
                memcpy(to, dy, (size_t)p->channels);
            }
            for (int32_t k = 0; k < p->channels && p->channel_stride != 1; k++) {
                to[k * p->channel_stride] = dy[k];
            }
            dy += p->channels;
        }
    }
}
