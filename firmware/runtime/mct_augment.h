/* SPDX-License-Identifier: Apache-2.0 */
/* Training samples varied at random, in the model's int8 input or before a front end: the same bits
 * as on the host (mcutrain/simulation/augment.py). What happens to a sample follows from its key alone.
 *
 *     const uint32_t key = mct_augment_key(seed, epoch, index);
 *     mct_augment_flip(key, MCT_INPUT_HEIGHT, MCT_INPUT_WIDTH, MCT_INPUT_CHANNELS, x);
 *     mct_augment_noise(key, MCT_INPUT_BYTES, 7, x);
 *     mct_feed(0, x, MCT_INPUT_BYTES);
 *
 * The host's order is flip, shift, gain, noise. Raw samples it shifts in time, then it mixes noise
 * behind them:
 *
 *     mct_augment_shift(key, count, 2, count / 10, 0, (int8_t *)samples);
 *     mct_augment_background(key, noise, noise_count, 5, 30, count, samples); */
#ifndef MCT_AUGMENT_H
#define MCT_AUGMENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* index: of the sample in its data set. */
uint32_t mct_augment_key(uint32_t seed, uint32_t epoch, uint32_t index);

/* Mirrors an image left to right, at even odds. */
void mct_augment_flip(uint32_t key, int32_t height, int32_t width, int32_t channels, int8_t *x);

/* Moves the sample by -most … most lines of so many bytes, of time or of an image; `fill`, the
 * input's zero point, comes in. 0 <= most < lines; the host takes lines / 10. */
void mct_augment_shift(uint32_t key, int32_t lines, int32_t line_bytes, int32_t most, int8_t fill,
                       int8_t *x);

/* Multiplies what the values mean by 1 - most / 256 … 1 + most / 256. The host takes 51. */
void mct_augment_gain(uint32_t key, int32_t count, int32_t most_q8, int32_t zero_point, int8_t *x);

/* Adds nearly normal noise of a standard deviation of 0.58 * amplitude codes. The host takes 7. */
void mct_augment_noise(uint32_t key, int32_t count, int32_t amplitude_q8, int8_t *x);

/* Mixes noise behind a sound, from a drawn place on, at a drawn ratio of their energies in whole
 * decibels, -20 <= low_db <= high_db <= 60. The noise begins again at its end, and grows at most 16
 * times; sound that is silent stays so. 0 < count <= 131072, 0 < noise_count. */
void mct_augment_background(uint32_t key, const int16_t *noise, uint32_t noise_count,
                            int32_t low_db, int32_t high_db, uint32_t count, int16_t *x);

#ifdef __cplusplus
}
#endif

#endif
