/* SPDX-License-Identifier: Apache-2.0 */
/* The audio front end of TensorFlow Lite Micro: sound at 16 kHz becomes frames of 40 features.
 *
 * mcutrain/frontends/audio.py computes the same, and says how and why. Integers only, no recursion,
 * no memory of its own: 1,124 bytes for what was heard, and 1,024 that are free between calls, such
 * as a part of a network's arena. */
#ifndef MCT_AUDIO_H
#define MCT_AUDIO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_AUDIO_RATE_HZ 16000
#define MCT_AUDIO_WINDOW 480  /* samples of a frame, 30 ms */
#define MCT_AUDIO_CHANNELS 40 /* features of a frame */
#define MCT_AUDIO_WORK 512    /* numbers of the work buffer */

typedef struct {
    uint32_t noise[MCT_AUDIO_CHANNELS]; /* means of each channel */
    int16_t samples[MCT_AUDIO_WINDOW];  /* of the frame that is heard now */
    uint16_t count;                     /* samples that it has so far */
    uint16_t step;                      /* samples from one frame to the next */
} mct_audio;

/* Forget all that was heard. step: 160 for a frame every 10 ms, 320 for 20 ms; up to 480. */
void mct_audio_reset(mct_audio *audio, uint16_t step);

/* Take samples until a frame is full, or all. Returns how many were taken; call it again with the
 * others. *is_frame: 1 if a frame is full, whose features are in `features` now; else 0. A feature
 * times 10 / 256 is what models take as a real number. work: of MCT_AUDIO_WORK numbers. */
uint32_t mct_audio_push(mct_audio *audio, const int16_t *samples, uint32_t count, int16_t *work,
                        uint16_t *features, int32_t *is_frame);

#ifdef __cplusplus
}
#endif

#endif
