/* SPDX-License-Identifier: Apache-2.0 */
/* Levels of mel bands: sound at 16 kHz becomes frames of a number for each band, in decibels.
 *
 * mcutrain/frontends/mel.py computes the same, and says how and why; it writes the parameters, too.
 * Integers only, no recursion, no memory of its own: 964 bytes for what was heard, and 2,048 that are
 * free between calls, such as a part of a network's arena. */
#ifndef MCT_MEL_H
#define MCT_MEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_MEL_MOST_SAMPLES 480 /* of a frame */
#define MCT_MEL_WORK 512         /* numbers of the work buffer */

typedef struct {
    const int16_t *window;   /* [samples / 2 + 1], the first half, 12 fraction bits */
    const uint16_t *ends;    /* [bands + 1], the bin behind each band's rising side */
    const uint16_t *weights; /* of the bins from `first` on, in the band before, 15 fraction bits */
    const int32_t *offsets;  /* [bands], added to a binary logarithm, 16 fraction bits */
    uint16_t samples;        /* of a frame: even, at most MCT_MEL_MOST_SAMPLES */
    uint16_t step;           /* samples from one frame to the next, at most `samples` */
    uint16_t first;          /* bin of the first band, at least 1 */
    uint16_t bands;
} mct_mel_params;

typedef struct {
    int16_t samples[MCT_MEL_MOST_SAMPLES]; /* of the frame that is heard now */
    uint32_t count;                        /* samples that it has so far */
} mct_mel;

/* Forget all that was heard. */
void mct_mel_reset(mct_mel *mel);

/* Take samples until a frame is full, or all. Returns how many were taken; call it again with the
 * others. *is_frame: 1 if a frame is full, whose levels are in features[bands] now; else 0. A level is
 * 0 to 32,767. work: of MCT_MEL_WORK numbers. */
uint32_t mct_mel_push(mct_mel *mel, const mct_mel_params *p, const int16_t *samples, uint32_t count,
                      int32_t *work, int16_t *features, int32_t *is_frame);

#ifdef __cplusplus
}
#endif

#endif
