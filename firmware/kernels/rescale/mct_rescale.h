/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp((x - x_zero_point) * mult_q31 * 2^(shift - 31) + y_zero_point, low, high): TFLite's
 * QUANTIZE from int8 to int8, RELU and RELU6 in int8, with the reference kernels' rounding.
 *
 * x, y: [elements]; y may be x. mask: where y did not clamp, or NULL.
 * 255 * 2^max(shift, 0) must fit int32. */
#ifndef MCT_RESCALE_H
#define MCT_RESCALE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t elements;
    int32_t x_zero_point, y_zero_point;
    int32_t mult_q31, shift;
    int32_t low, high;
} mct_rescale_s8_params;

void mct_rescale_s8(const mct_rescale_s8_params *p, const int8_t *x, int8_t *y, uint8_t *mask);

#ifdef __cplusplus
}
#endif

#endif
