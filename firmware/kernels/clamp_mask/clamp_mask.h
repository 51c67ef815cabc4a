/* mask bit i = low < y[i] < high: where an activation did not clamp and its gradient passes.
 *
 * y: [elements]   mask: [(elements + 7) / 8], the lowest bit of each byte first, padded with 0 */
#ifndef MCT_CLAMP_MASK_H
#define MCT_CLAMP_MASK_H

#include "mct_types.h"

typedef struct {
    int32_t elements;
    int32_t low, high;
} mct_clamp_mask_s8_params;

void mct_clamp_mask_s8(const mct_clamp_mask_s8_params *p, const int8_t *y, uint8_t *mask);

#endif
