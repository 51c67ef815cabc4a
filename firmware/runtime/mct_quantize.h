/* SPDX-License-Identifier: Apache-2.0 */
/* Samples become the int8 values that a model takes: the same bits as mcutrain.data.quantize_input. */
#ifndef MCT_QUANTIZE_H
#define MCT_QUANTIZE_H

#include <stdint.h>

#include "mct_types.h"

#define MCT_PIECE_BYTES 96 /* of a sample that is converted in pieces, on the stack */

#ifdef __cplusplus
extern "C" {
#endif

/* clamp(round(real / scale) + zero_point), halves away from zero, the division in single precision.
 * What is no number becomes the zero point. Not for -ffast-math, which divides otherwise. */
static inline int8_t mct_quantize_one(float real, float scale, int32_t zero_point) {
    const float quotient = real / scale;
    const float size = quotient < 0.0f ? -quotient : quotient;
    int32_t steps = 0;
    if (size < 256.0f) {
        steps = MCT_CAST(int32_t, size);
        steps += size - MCT_CAST(float, steps) >= 0.5f;
    } else if (size >= 256.0f) {
        steps = 256; /* beyond all codes, whatever the zero point */
    }
    const int32_t code = zero_point + (quotient < 0.0f ? -steps : steps);
    return MCT_CAST(int8_t, code < -128 ? -128 : (code > 127 ? 127 : code));
}

/* Real numbers, as the model took them before it was quantized. x may not overlap real. */
static inline void mct_quantize(const float *real, int32_t count, float scale, int32_t zero_point,
                                int8_t *x) {
    for (int32_t i = 0; i < count; i++) {
        x[i] = mct_quantize_one(real[i], scale, zero_point);
    }
}

/* Pixels of models that take pixel / 127.5 - 1, pixel / 255 or pixel: code = pixel - 128.
 * x may be the same memory as pixels. */
static inline void mct_shift_pixels(const uint8_t *pixels, int32_t count, int8_t *x) {
    for (int32_t i = 0; i < count; i++) {
        x[i] = MCT_CAST(int8_t, pixels[i] - 128);
    }
}

/* Pixels of a model with a mean and a standard deviation per channel. codes: the code of each pixel
 * value, for each of so many channels that lie next to each other. */
static inline void mct_look_up_pixels(const uint8_t *pixels, int32_t count,
                                      const int8_t (*codes)[256], int32_t channels, int8_t *x) {
    for (int32_t i = 0; i < count; i++) {
        x[i] = codes[i % channels][pixels[i]];
    }
}

#ifdef __cplusplus
}
#endif

#endif
