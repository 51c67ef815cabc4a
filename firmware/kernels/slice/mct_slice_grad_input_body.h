/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_slice_grad_input_<type>. */

#include <string.h>

void MCT_NAME(mct_slice_grad_input)(const MCT_PARAMS(mct_slice_grad_input) *p, const MCT_GRAD *dy,
                                    MCT_GRAD *dx) {
    MCT_GRAD *first = dx + p->skipped_rows * p->row_elements + p->skipped;
    memset(dx, 0, (size_t)p->elements * sizeof *dx);
    for (int32_t i = 0; i < p->rows; i++) {
        for (int32_t j = 0; j < p->columns; j++) {
            MCT_GRAD *to = first + i * p->row_stride + j * p->column_stride;
            for (int32_t k = 0; k < p->channels; k++) {
                to[k * p->channel_stride] = *dy++;
            }
        }
    }
}
