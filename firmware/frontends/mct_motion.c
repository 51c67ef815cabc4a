/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_motion.h"

#include "mct_fourier.h"

#include <string.h>

#define MEAN_BITS 3 /* fraction bits of the mean that is subtracted */
#define HEADROOM 9

static int16_t saturated(int32_t x) {
    return (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
}

static uint32_t channels_of(const mct_motion_params *p) {
    return p->axes + (p->magnitude_axes > 0 ? 1u : 0u);
}

/* The filter's sum moves from g to g + x - (g >> k). Both g - (g >> k) and x are largest at the
 * largest g and x, and 32767 * 2^k stays there with x = 32767; so does -32768 * 2^k below. */
static int16_t without_gravity(int32_t *gravity, int32_t x, uint32_t shift) {
    *gravity += x - (*gravity >> shift);
    return saturated(x - (*gravity >> shift));
}

void mct_motion_reset(mct_motion *motion, const mct_motion_params *p) {
    memset(motion, 0, sizeof *motion);
    motion->due = p->window;
}

int32_t mct_motion_push(mct_motion *motion, const mct_motion_params *p, int16_t *rows,
                        const int16_t *row) {
    int16_t *to = rows + motion->next * channels_of(p);
    uint32_t squares = 0; /* of three axes at most: 3 * 2^30 */
    for (uint32_t a = 0; a < p->axes; a++) {
        const uint32_t shift = p->shifts[a];
        to[a] = saturated((row[a] * p->mults[a] + ((1 << shift) >> 1)) >> shift);
        if (p->gravity_shift > 0) {
            if (!motion->is_warm) {
                motion->gravity[a] = to[a] * (1 << p->gravity_shift);
            }
            to[a] = without_gravity(&motion->gravity[a], to[a], p->gravity_shift);
        }
        squares += a < p->magnitude_axes ? (uint32_t)(to[a] * to[a]) : 0u;
    }
    if (p->magnitude_axes > 0) {
        to[p->axes] = saturated((int32_t)mct_root(squares));
    }
    motion->is_warm = 1;
    motion->next = (uint16_t)(motion->next + 1 == p->window ? 0 : motion->next + 1);
    motion->due--;
    if (motion->due > 0) {
        return 0;
    }
    motion->due = p->step;
    return 1;
}

const int16_t *mct_motion_row(const mct_motion *motion, const mct_motion_params *p,
                              const int16_t *rows, uint32_t i) {
    const uint32_t place = motion->next + i, count = p->window;
    return rows + (place < count ? place : place - count) * channels_of(p);
}

/* 32767 - cos(2 pi i / rows) 32767, >> 5: Hann's window with 11 fraction bits. */
static int32_t hann(uint32_t i, uint32_t rows) {
    return (32767 - mct_cosine((i * 512 + rows / 2) / rows & 511u)) >> 5;
}

/* A number less the mean is below 2^19 and the window below 2^11: 512 points, which drop 9 bits, are
 * below 2^30 together. The power of all bins is at most half the points' number times the sum of
 * their squares: below 2^60. sum: of all rows, below 2^24. */
static int16_t *bands(const mct_motion *motion, const mct_motion_params *p, const int16_t *rows,
                      uint32_t channel, int32_t sum, int32_t *points, int16_t *to) {
    const int32_t count = p->window, eighths = sum * (1 << MEAN_BITS) + count / 2;
    const int32_t mean = eighths / count - (eighths % count < 0 ? 1 : 0); /* rounded down */
    uint32_t bin = 1;
    for (uint32_t i = 0; i < p->window; i++) {
        const int32_t x = mct_motion_row(motion, p, rows, i)[channel] * (1 << MEAN_BITS) - mean;
        points[i] = (x * hann(i, p->window)) >> HEADROOM;
    }
    memset(points + p->window, 0, (uint32_t)(p->points - p->window) * sizeof *points);
    mct_fourier(points, p->points);
    for (uint32_t band = 0; band < p->bands; band++) {
        uint64_t power = 1;
        for (; bin < p->band_ends[band]; bin++) {
            const uint64_t size = mct_fourier_magnitude(points, p->points, bin);
            power += size * size;
        }
        *to++ = (int16_t)((mct_log2(power) + (1 << 7)) >> 8);
    }
    return to;
}

/* Sums of 512 numbers of 16 bits are below 2^25, and so is a number times 512. */
void mct_motion_features(const mct_motion *motion, const mct_motion_params *p, const int16_t *rows,
                         int32_t *work, int16_t *features) {
    const int32_t count = p->window;
    for (uint32_t channel = 0; channel < channels_of(p); channel++) {
        int32_t sum = 0, crossings = 0, was_above = 0;
        uint64_t squares = (uint32_t)count / 2;
        for (uint32_t i = 0; i < p->window; i++) {
            const int32_t x = mct_motion_row(motion, p, rows, i)[channel];
            sum += x;
            squares += (uint32_t)(x * x);
        }
        for (uint32_t i = 0; i < p->window; i++) {
            const int32_t is_above = mct_motion_row(motion, p, rows, i)[channel] * count >= sum;
            crossings += i > 0 && is_above != was_above;
            was_above = is_above;
        }
        const int32_t mean = (sum < 0 ? sum - count / 2 : sum + count / 2) / count;
        if (p->features & MCT_MOTION_MEAN) {
            *features++ = (int16_t)mean;
        }
        if (p->features & MCT_MOTION_RMS) {
            *features++ = saturated((int32_t)mct_root((uint32_t)(squares / (uint32_t)count)));
        }
        if (p->features & MCT_MOTION_CROSSINGS) {
            *features++ = (int16_t)crossings;
        }
        if (p->bands > 0) {
            features = bands(motion, p, rows, channel, sum, work, features);
        }
    }
}
