/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp(requantize((requantize(a') - requantize(b'))^2) + zero_point), the same bits as TFLite's
 * reference kernel for SQUARED_DIFFERENCE in int8: each operand, less its zero point and shifted left
 * by 7, is requantized by a factor of at most 1/2, and so is the square of their difference.
 *
 * a, b, y: [elements]; y may be a or b. mask: where y did not clamp, or NULL.
 * A difference is at most 255 * 2^7, so that its square fits int32. */
#ifndef MCT_SQUARED_DIFFERENCE_H
#define MCT_SQUARED_DIFFERENCE_H

#include "mct_add.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t elements;
    mct_scaled a, b, y;
    int32_t low, high;
} mct_squared_difference_s8_params;

void mct_squared_difference_s8(const mct_squared_difference_s8_params *p, const int8_t *a,
                               const int8_t *b, int8_t *y, uint8_t *mask);

#ifdef __cplusplus
}
#endif

#endif
