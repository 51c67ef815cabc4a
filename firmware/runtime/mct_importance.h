/* SPDX-License-Identifier: Apache-2.0 */
/* How much each trained tensor has helped lately, from the states before and after, in integers.
 * mcutrain/simulation/elastic.py is the same in Python, bit for bit.
 *
 * Of two windows of training steps that follow one another the first moves a weight by d, the second by
 * d'. What the loss lost on account of a tensor is about the sum of d * d' / rate over its weights. The
 * cheap form takes the sum of d * d / rate of one window, with the noise that is in it. */
#ifndef MCT_IMPORTANCE_H
#define MCT_IMPORTANCE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_IMPORTANCE_MOST_MOVED 32767 /* counts of a stored number, in its unit */

/* A trained tensor. Its number i belongs to the channel i / inner % channels. */
typedef struct {
    const uint16_t *factors;   /* of each channel: 1 / rate, * 2^16 / 2^exponent */
    uint32_t offset, residual; /* in the state: of its numbers, and of their residual bits */
    uint32_t count, channels, inner;
    int16_t exponent;
    uint8_t size_bytes; /* of a number: 1, 2 or 4 */
    uint8_t residual_bits;
    uint8_t dropped_bits; /* of a channel's sum */
} mct_importance_tensor;

/* importance: int32 of each tensor, 1 or more, together below 2^31. before, between, after: the bytes of
 * states, before the first window, between both, and after the second; at any address. between is NULL
 * for the cheap form. helped: space for `count` numbers. */
void mct_importance(const mct_importance_tensor *tensors, uint32_t count, const uint8_t *before,
                    const uint8_t *between, const uint8_t *after, int64_t *helped,
                    int32_t *importance);

#ifdef __cplusplus
}
#endif

#endif
