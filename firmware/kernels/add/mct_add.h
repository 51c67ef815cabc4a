/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp(requantize(a') + requantize(b') + zero_point), the same bits as TFLite's reference
 * kernel for ADD in int8. Each operand, less its zero point and shifted left, is requantized, and
 * so is their sum.
 *
 * a, b, y: [elements]; y may be a or b. mask: where y did not clamp, or NULL.
 * 255 * 2^left_shift must fit int32: left_shift <= 22. */
#ifndef MCT_ADD_H
#define MCT_ADD_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t zero_point, mult_q31, shift;
} mct_scaled;

typedef struct {
    int32_t elements;
    mct_scaled a, b, y;
    int32_t left_shift;
    int32_t low, high;
} mct_add_s8_params;

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask);

#ifdef __cplusplus
}
#endif

#endif
