/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_augment.h"

#include <string.h>

#include "mct_fixedpoint.h"

/* Elements have the counters from 0 on, what is drawn once per sample those from the top down. */
#define MCT_FLIP 0xFFFFFFFFu
#define MCT_SHIFT 0xFFFFFFFEu
#define MCT_GAIN 0xFFFFFFFDu
#define MCT_PLACE 0xFFFFFFF5u
#define MCT_SNR 0xFFFFFFF4u
#define MCT_MOST_GAIN_Q16 (UINT32_C(1) << 20)

/* 2^15 * 10^(-decibels / 20) */
static const uint16_t mct_amplitudes_q15[20] = {32768, 29205, 26029, 23198, 20675, 18427, 16423,
                                                14637, 13045, 11627, 10362, 9235,  8231,  7336,
                                                6538,  5827,  5193,  4629,  4125,  3677};

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

static uint32_t mct_augment_root(uint64_t value) {
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 62; bit != 0; bit >>= 2) {
        if (value >= root + bit) {
            value -= root + bit;
            root += bit << 1;
        }
        root >>= 1;
    }
    return (uint32_t)root;
}

/* Of samples from a place of a ring on; 8 fraction bits. Below 2^23, as |x| <= 2^15. */
static uint32_t mct_augment_rms_q8(const int16_t *ring, uint32_t size, uint32_t place,
                                   uint32_t count) {
    uint64_t energy = 0;
    for (uint32_t i = 0; i < count; i++) {
        energy += (uint64_t)((int32_t)ring[place] * ring[place]);
        place = place + 1 == size ? 0 : place + 1;
    }
    return mct_augment_root((energy << 16) / count);
}

static uint32_t mct_augment_amplitude_q15(int32_t db) {
    uint32_t amplitude = mct_amplitudes_q15[(db + 20) % 20];
    for (int32_t left = db; left >= 20; left -= 20) {
        amplitude /= 10;
    }
    return db < 0 ? amplitude * 10 : amplitude;
}

void mct_augment_background(uint32_t key, const int16_t *noise, uint32_t noise_count,
                            int32_t low_db, int32_t high_db, uint32_t count, int16_t *x) {
    uint32_t place = (uint32_t)((uint64_t)mct_augment_draw(key, MCT_PLACE) * noise_count >> 32);
    const int32_t db = low_db + mct_augment_below(key, MCT_SNR, high_db - low_db + 1);
    const uint64_t loud = mct_augment_rms_q8(x, count, 0, count);
    const uint32_t noisy = mct_augment_rms_q8(noise, noise_count, place, count);
    if (noisy == 0) {
        return;
    }
    uint64_t gain = 2 * loud * mct_augment_amplitude_q15(db) / noisy;
    gain = gain < MCT_MOST_GAIN_Q16 ? gain : MCT_MOST_GAIN_Q16;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t added = ((int64_t)noise[place] * (int64_t)gain + (1 << 15)) >> 16;
        const int64_t sum = x[i] + added;
        x[i] = (int16_t)(sum < -32768 ? -32768 : (sum > 32767 ? 32767 : sum));
        place = place + 1 == noise_count ? 0 : place + 1;
    }
}
