/* SPDX-License-Identifier: Apache-2.0 */
/* Normalization: a sensor's numbers become a model's input, each channel by its mean and deviation.
 *
 * y[c] = (x[c] * mults[c] + biases[c]) >> shifts[c], within -128 ... 127
 *
 * mcutrain/frontends/normalization.py computes the same, says how the numbers are found, and when
 * nothing needs to be computed. */
#ifndef MCT_NORMALIZE_H
#define MCT_NORMALIZE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const int16_t *mults;  /* of each channel, 0 ... 2^14 - 1 */
    const int32_t *biases; /* below 2^30 + 2^22 in size: sums with x * mult are below 2^31 */
    const uint8_t *shifts; /* 6 ... 22 */
    uint16_t channels;
} mct_normalize_params;

/* x, y: [count][channels], channels side by side. */
void mct_normalize_s16(const mct_normalize_params *p, const int16_t *x, int8_t *y, uint32_t count);

/* Like mct_normalize_s16, for bytes; y may be x. */
void mct_normalize_u8(const mct_normalize_params *p, const uint8_t *x, int8_t *y, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
