/* SPDX-License-Identifier: Apache-2.0 */
/* y = a part of x; and its gradient: dx = dy at the places of that part, 0 elsewhere.
 *
 * y, dy: [rows][columns][channels]; element i, j, k of it is element
 * skipped_rows * row_elements + skipped + i * row_stride + j * column_stride + k * channel_stride
 * of x, dx: of `elements`, in rows of row_elements. Nothing may overlap. */
#ifndef MCT_SLICE_H
#define MCT_SLICE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, columns, channels;
    int32_t row_stride, column_stride, channel_stride;
    int32_t row_elements, skipped_rows, skipped;
} mct_slice_s8_params;

void mct_slice_s8(const mct_slice_s8_params *p, const int8_t *x, int8_t *y);

typedef struct {
    int32_t rows, columns, channels;
    int32_t row_stride, column_stride, channel_stride;
    int32_t row_elements, skipped_rows, skipped;
    int32_t elements;
} mct_slice_grad_input_s8_params;
typedef mct_slice_grad_input_s8_params mct_slice_grad_input_s16_params;

void mct_slice_grad_input_s8(const mct_slice_grad_input_s8_params *p, const int8_t *dy, int8_t *dx);
void mct_slice_grad_input_s16(const mct_slice_grad_input_s16_params *p, const int16_t *dy,
                              int16_t *dx);

#ifdef __cplusplus
}
#endif

#endif
