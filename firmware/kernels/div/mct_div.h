/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp(((a - a_zero_point) * factors[b + 128] + 2^21 >> 22) + y_zero_point, low, high).
 *
 * factors: [256], what a divisor multiplies by, Q22, any int32 but -2^31.
 * a, b, y: [elements]; y may be a or b. mask: where y did not clamp, or NULL. */
#ifndef MCT_DIV_H
#define MCT_DIV_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t elements;
    int32_t a_zero_point, y_zero_point;
    const int32_t *factors;
    int32_t low, high;
} mct_div_s8_params;

void mct_div_s8(const mct_div_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask);

#ifdef __cplusplus
}
#endif

#endif
