/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_normalize.h"

static int8_t normalized(const mct_normalize_params *p, uint32_t channel, int32_t x) {
    const int32_t y = (x * p->mults[channel] + p->biases[channel]) >> p->shifts[channel];
    return (int8_t)(y < -128 ? -128 : y > 127 ? 127 : y);
}

void mct_normalize_s16(const mct_normalize_params *p, const int16_t *x, int8_t *y, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t channel = 0; channel < p->channels; channel++) {
            *y++ = normalized(p, channel, *x++);
        }
    }
}

void mct_normalize_u8(const mct_normalize_params *p, const uint8_t *x, int8_t *y, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t channel = 0; channel < p->channels; channel++) {
            *y++ = normalized(p, channel, *x++);
        }
    }
}
