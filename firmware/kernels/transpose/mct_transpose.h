/* SPDX-License-Identifier: Apache-2.0 */
/* y = x with its axes in another order, of int8 activations and int8 or int16 gradients.
 *
 * y: [length_0][length_1][length_2][length_3], written in order; its element i, j, k, l is element
 * i * stride_0 + j * stride_1 + k * stride_2 + l * stride_3 of x. x and y do not overlap. */
#ifndef MCT_TRANSPOSE_H
#define MCT_TRANSPOSE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t length_0, length_1, length_2, length_3;
    int32_t stride_0, stride_1, stride_2, stride_3;
} mct_transpose_s8_params;
typedef mct_transpose_s8_params mct_transpose_s16_params;

void mct_transpose_s8(const mct_transpose_s8_params *p, const int8_t *x, int8_t *y);
void mct_transpose_s16(const mct_transpose_s16_params *p, const int16_t *x, int16_t *y);

#ifdef __cplusplus
}
#endif

#endif
