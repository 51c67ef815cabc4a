/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_augment.h"

#include <string.h>

#include "mct_fixedpoint.h"

/* Elements have the counters from 0 on, what is drawn once per sample those from the top down. */
#define MCT_FLIP 0xFFFFFFFFu
#define MCT_SHIFT 0xFFFFFFFEu
#define MCT_GAIN 0xFFFFFFFDu

static uint32_t mct_augment_draw(uint32_t key, uint32_t counter) {
    return mct_hash32(counter * UINT32_C(0x9E3779B9) + key);
}

/* 0 … count - 1 */
static int32_t mct_augment_below(uint32_t key, uint32_t counter, int32_t count) {
    return (int32_t)((uint64_t)(mct_augment_draw(key, counter) >> 16) * (uint32_t)count >> 16);
}

static int8_t mct_augment_clamp(int32_t value) {
    return (int8_t)(value < -128 ? -128 : (value > 127 ? 127 : value));
}

uint32_t mct_augment_key(uint32_t seed, uint32_t epoch, uint32_t index) {
    return mct_hash32(mct_hash32(mct_hash32(seed) + epoch) + index);
}

void mct_augment_flip(uint32_t key, int32_t height, int32_t width, int32_t channels, int8_t *x) {
    if (mct_augment_draw(key, MCT_FLIP) >> 31 == 0) {
        return;
    }
    for (int32_t row = 0; row < height; row++, x += width * channels) {
        for (int32_t i = 0; i < width / 2; i++) {
            int8_t *left = x + i * channels;
            int8_t *right = x + (width - 1 - i) * channels;
            for (int32_t c = 0; c < channels; c++) {
                const int8_t value = left[c];
                left[c] = right[c];
                right[c] = value;
            }
        }
    }
}

void mct_augment_shift(uint32_t key, int32_t lines, int32_t line_bytes, int32_t most, int8_t fill,
                       int8_t *x) {
    const int32_t by = mct_augment_below(key, MCT_SHIFT, 2 * most + 1) - most;
    const int32_t moved = (by < 0 ? -by : by) * line_bytes;
    const int32_t kept = lines * line_bytes - moved;
    if (by > 0) {
        memmove(x + moved, x, (size_t)kept);
        memset(x, fill, (size_t)moved);
    } else if (by < 0) {
        memmove(x, x + moved, (size_t)kept);
        memset(x + kept, fill, (size_t)moved);
    }
}

void mct_augment_gain(uint32_t key, int32_t count, int32_t most_q8, int32_t zero_point, int8_t *x) {
    const int32_t factor = 256 - most_q8 + mct_augment_below(key, MCT_GAIN, 2 * most_q8 + 1);
    for (int32_t i = 0; i < count; i++) {
        x[i] = mct_augment_clamp(zero_point + (((x[i] - zero_point) * factor + 128) >> 8));
    }
}

void mct_augment_noise(uint32_t key, int32_t count, int32_t amplitude_q8, int8_t *x) {
    for (int32_t i = 0; i < count; i++) {
        const uint32_t drawn = mct_augment_draw(key, (uint32_t)i);
        const uint32_t sum =
            (drawn & 255) + (drawn >> 8 & 255) + (drawn >> 16 & 255) + (drawn >> 24);
        x[i] = mct_augment_clamp(x[i] + ((((int32_t)sum - 510) * amplitude_q8 + 128) >> 8));
    }
}
