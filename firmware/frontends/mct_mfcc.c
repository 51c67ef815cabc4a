/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_mfcc.h"

#include "mct_fourier.h"
#include "mct_mfcc_tables.h"

#include <string.h>

#define BANDS 40
#define HEADROOM 5
#define WEIGHT_BITS 15
#define FULL_SCALE_BITS 37 /* of a sample, in the units of a band: 15 and 7 and 15 */
#define FLOOR 137439u      /* a millionth of it */
#define SILENCE (-31635)   /* the first coefficient of zeros */

/* Windowed samples with 7 fraction bits, and zeros behind. Returns the largest sample. Their sizes'
 * sum is at most 2^15 times the window's sum, 240, times 2^7: below 2^30. */
static int16_t load(const int16_t *samples, int32_t *points) {
    int16_t largest = INT16_MIN;
    for (uint32_t i = 0; i < MCT_MFCC_WINDOW; i++) {
        const uint32_t place = i <= MCT_MFCC_WINDOW / 2 ? i : MCT_MFCC_WINDOW - i;
        points[i] = (samples[i] * mct_mfcc_window[place]) >> HEADROOM;
        largest = samples[i] > largest ? samples[i] : largest;
    }
    memset(points + MCT_MFCC_WINDOW, 0, (MCT_MFCC_WORK - MCT_MFCC_WINDOW) * sizeof *points);
    return largest;
}

/* Logarithms of the bands, 9 fraction bits, from the transformed points. A magnitude is below 2^30,
 * a weight at most 2^15, and a band has less than 16 bins: below 2^49. */
static void levels_of(const int32_t *points, int32_t *levels) {
    uint64_t falling = 0, rising = 0; /* of this band, of the next */
    uint32_t bin = 1;
    for (uint32_t band = 0; band <= BANDS; band++) {
        falling = rising;
        rising = 0;
        for (; bin < mct_mfcc_band_ends[band]; bin++) {
            const uint64_t size = mct_fourier_magnitude(points, MCT_MFCC_WORK, bin);
            const uint32_t weight = mct_mfcc_weights[bin - 1];
            falling += size * weight;
            rising += size * ((1u << WEIGHT_BITS) - weight);
        }
        if (band > 0) {
            const int32_t binary = mct_log2(falling + FLOOR) - (FULL_SCALE_BITS << 16);
            levels[band - 1] = (binary + (1 << 6)) >> 7;
        }
    }
}

/* |level| <= 20 * 512, as the floor is 2^-20 of full scale and a band at most 2^8 of it; the sum of a
 * row of |dct| is at most 40 * 5079. So sums stay below 2^31 - 2^26, and a coefficient below 2^15. */
static void cosine_transform(const int32_t *levels, int16_t *frame) {
    const int16_t *row = mct_mfcc_dct;
    for (uint32_t k = 0; k < MCT_MFCC_COEFFICIENTS; k++) {
        int32_t sum = 1 << 15;
        for (uint32_t m = 0; m < BANDS / 2; m++) {
            const int32_t first = levels[m], last = levels[BANDS - 1 - m];
            sum += (k % 2 == 0 ? first + last : first - last) * *row++;
        }
        frame[k] = (int16_t)(sum >> 16);
    }
}

void mct_mfcc_reset(mct_mfcc *mfcc) {
    memset(mfcc, 0, sizeof *mfcc);
}

uint32_t mct_mfcc_push(mct_mfcc *mfcc, const int16_t *samples, uint32_t count, int32_t *work,
                       int16_t *frame, int16_t *peak, int32_t *is_frame) {
    const uint32_t room = MCT_MFCC_WINDOW - mfcc->count;
    const uint32_t taken = count < room ? count : room;
    memcpy(mfcc->samples + mfcc->count, samples, taken * sizeof *samples);
    mfcc->count += taken;
    *is_frame = mfcc->count == MCT_MFCC_WINDOW;
    if (*is_frame) {
        int32_t levels[BANDS];
        *peak = load(mfcc->samples, work);
        mct_fourier(work, MCT_MFCC_WORK);
        levels_of(work, levels);
        cosine_transform(levels, frame);
        mfcc->count = MCT_MFCC_WINDOW - MCT_MFCC_STEP;
        memmove(mfcc->samples, mfcc->samples + MCT_MFCC_STEP, mfcc->count * sizeof *samples);
    }
    return taken;
}

int32_t mct_mfcc_level(int16_t peak) {
    if (peak <= 0) {
        return 0;
    }
    const int32_t binary = mct_log2((uint64_t)peak) - (15 << 16);
    return (((binary + (1 << 6)) >> 7) * BANDS * mct_mfcc_dct[0] + (1 << 15)) >> 16;
}

/* The level of frame[0] is subtracted, but not of silence. */
static int32_t less_level(const int16_t *frame, uint32_t k, int32_t level) {
    return k == 0 && frame[0] != SILENCE ? frame[0] - level : frame[k];
}

uint32_t mct_mfcc_push_kept(mct_mfcc *mfcc, const int16_t *samples, uint32_t count, int32_t *work,
                            int16_t *kept, int32_t *is_frame) {
    return mct_mfcc_push(mfcc, samples, count, work, kept, kept + MCT_MFCC_COEFFICIENTS, is_frame);
}

int32_t mct_mfcc_look(const int16_t *ring, uint32_t size, uint32_t begin, uint32_t count) {
    int16_t largest = INT16_MIN;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t row = i < size - begin ? begin + i : begin + i - size;
        const int16_t peak = ring[row * MCT_MFCC_KEPT + MCT_MFCC_COEFFICIENTS];
        largest = peak > largest ? peak : largest;
    }
    return mct_mfcc_level(largest);
}

void mct_mfcc_finish(const int16_t *frame, int32_t level, int16_t *features) {
    for (uint32_t k = 0; k < MCT_MFCC_COEFFICIENTS; k++) {
        const int32_t c = less_level(frame, k, level);
        features[k] = (int16_t)(c < INT16_MIN ? INT16_MIN : c > INT16_MAX ? INT16_MAX : c);
    }
}

void mct_mfcc_quantize(const mct_mfcc_quantization *p, const int16_t *frame, int32_t level,
                       int8_t *x) {
    const int32_t half = 1 << (p->shift - 1);
    for (uint32_t k = 0; k < MCT_MFCC_COEFFICIENTS; k++) {
        const int32_t c = less_level(frame, k, level);
        const int32_t y = ((c * p->mult + half) >> p->shift) + p->zero_point;
        x[k] = (int8_t)(y < -128 ? -128 : y > 127 ? 127 : y);
    }
}
