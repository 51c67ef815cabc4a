/* SPDX-License-Identifier: Apache-2.0 */
/* Residual bits of trained weights: packed from the lowest bit of each byte upwards, 2, 4 or 8 each,
 * so that none lies in two bytes. With 0 there are none. */
#ifndef MCT_RESIDUAL_H
#define MCT_RESIDUAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return the residual bits of the weight i. */
static inline int32_t mct_residual_get(const uint8_t *residual, int32_t bits, int32_t i) {
    if (bits == 8) {
        return residual[i];
    }
    const int32_t at = i * bits;
    return bits > 0 ? (residual[at >> 3] >> (at & 7)) & ((1 << bits) - 1) : 0;
}

/* 0 <= value < 2^bits */
static inline void mct_residual_set(uint8_t *residual, int32_t bits, int32_t i, int32_t value) {
    if (bits == 8) {
        residual[i] = (uint8_t)value;
    } else if (bits > 0) {
        const int32_t at = i * bits, low = at & 7, mask = ((1 << bits) - 1) << low;
        residual[at >> 3] = (uint8_t)((residual[at >> 3] & ~mask) | (value << low));
    }
}

#ifdef __cplusplus
}
#endif

#endif
