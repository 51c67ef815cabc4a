/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_mel.h"

#include "mct_fourier.h"

#include <string.h>

#define HEADROOM 5
#define ENERGY_SHIFT 14
#define WEIGHT_BITS 15
#define LEVEL_SHIFT 8 /* from 16 fraction bits to those of a level */

/* Windowed samples with 7 fraction bits, and zeros behind. Their sizes' sum is at most 2^15 times the
 * window's sum, 240, times 2^7: below 2^30. */
static void load(const mct_mel_params *p, const int16_t *samples, int32_t *points) {
    for (uint32_t i = 0; i < p->samples; i++) {
        const uint32_t place = i <= p->samples / 2u ? i : p->samples - i;
        points[i] = (samples[i] * p->window[place]) >> HEADROOM;
    }
    memset(points + p->samples, 0, (MCT_MEL_WORK - p->samples) * sizeof *points);
}

/* The points' squares sum up to 2^44 times those of the window, 180, so the energies of half of their
 * 512 bins to less than 2^60 (Parseval), and what all bands have to less than 2^60 / 2^14 * 2^15. */
static void levels_of(const mct_mel_params *p, const int32_t *points, int16_t *features) {
    uint64_t falling = 0, rising = 0; /* of this band, of the next */
    uint32_t bin = p->first;
    for (uint32_t band = 0; band <= p->bands; band++) {
        falling = rising;
        rising = 0;
        for (; bin < p->ends[band]; bin++) {
            const uint64_t size = mct_fourier_magnitude(points, MCT_MEL_WORK, bin);
            const uint64_t energy = (size * size) >> ENERGY_SHIFT;
            const uint32_t weight = p->weights[bin - p->first];
            falling += energy * weight;
            rising += energy * ((1u << WEIGHT_BITS) - weight);
        }
        if (band > 0) {
            const int32_t level = mct_log2(falling + 1u) + p->offsets[band - 1u];
            const int32_t short_level = (level + (1 << (LEVEL_SHIFT - 1))) >> LEVEL_SHIFT;
            features[band - 1u] = (int16_t)(short_level < 0           ? 0
                                            : short_level > INT16_MAX ? INT16_MAX
                                                                      : short_level);
        }
    }
}

void mct_mel_reset(mct_mel *mel) {
    memset(mel, 0, sizeof *mel);
}

uint32_t mct_mel_push(mct_mel *mel, const mct_mel_params *p, const int16_t *samples, uint32_t count,
                      int32_t *work, int16_t *features, int32_t *is_frame) {
    const uint32_t room = p->samples - mel->count;
    const uint32_t taken = count < room ? count : room;
    memcpy(mel->samples + mel->count, samples, taken * sizeof *samples);
    mel->count += taken;
    *is_frame = mel->count == p->samples;
    if (*is_frame) {
        load(p, mel->samples, work);
        mct_fourier(work, MCT_MEL_WORK);
        levels_of(p, work, features);
        mel->count = p->samples - (uint32_t)p->step;
        memmove(mel->samples, mel->samples + p->step, mel->count * sizeof *samples);
    }
    return taken;
}
