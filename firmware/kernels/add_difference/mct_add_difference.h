/* SPDX-License-Identifier: Apache-2.0 */
/* b = clamp(frozen + difference * 2^shift, ±MCT_BIAS_LIMIT): a trained bias whose state is the
 * difference to the model's own.
 *
 * frozen, difference, b: [channels]   |frozen| <= MCT_BIAS_LIMIT   0 <= shift < 15, so that the sum
 * is within 2^30 + 2^29. Nothing may overlap. */
#ifndef MCT_ADD_DIFFERENCE_H
#define MCT_ADD_DIFFERENCE_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t channels, shift;
} mct_add_difference_s32_params;

void mct_add_difference_s32(const mct_add_difference_s32_params *p, const int32_t *frozen,
                            const int16_t *difference, int32_t *b);

#ifdef __cplusplus
}
#endif

#endif
