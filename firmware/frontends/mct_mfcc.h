/* SPDX-License-Identifier: Apache-2.0 */
/* MFCCs of keyword models: sound at 16 kHz becomes frames of 10 coefficients, 30 ms every 20 ms.
 *
 * mcutrain/frontends/mfcc.py computes the same, and says how and why. Integers only, no recursion,
 * no memory of its own: 964 bytes for what was heard, and 2,048 that are free between calls, such
 * as a part of a network's arena. A model takes the last 49 frames: 20 bytes each, and a peak. */
#ifndef MCT_MFCC_H
#define MCT_MFCC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_MFCC_RATE_HZ 16000
#define MCT_MFCC_WINDOW 480      /* samples of a frame */
#define MCT_MFCC_STEP 320        /* samples from one frame to the next */
#define MCT_MFCC_COEFFICIENTS 10 /* numbers of a frame, with 8 fraction bits */
#define MCT_MFCC_KEPT 11         /* numbers of a frame until its window is complete */
#define MCT_MFCC_WORK 512        /* numbers of the work buffer */

typedef struct {
    int16_t samples[MCT_MFCC_WINDOW]; /* of the frame that is heard now */
    uint32_t count;                   /* samples that it has so far */
} mct_mfcc;

/* How a coefficient becomes a model's input: (c * mult + half) >> shift, plus the zero point, within
 * -128 ... 127. mult: below 2^14, so that c less a level, below 2^16, times mult stays below 2^30,
 * and with half below 2^31. shift: 1 ... 30. */
typedef struct {
    int16_t mult;
    uint8_t shift;
    int8_t zero_point;
} mct_mfcc_quantization;

/* Forget all that was heard. */
void mct_mfcc_reset(mct_mfcc *mfcc);

/* Take samples until a frame is full, or all. Returns how many were taken; call it again with the
 * others. *is_frame: 1 if a frame is full, whose coefficients and largest sample are in `frame` and
 * *peak now; else 0. work: of MCT_MFCC_WORK numbers. */
uint32_t mct_mfcc_push(mct_mfcc *mfcc, const int16_t *samples, uint32_t count, int32_t *work,
                       int16_t *frame, int16_t *peak, int32_t *is_frame);

/* What the sound's largest sample, the largest peak of a window's frames, adds to the first
 * coefficient. */
int32_t mct_mfcc_level(int16_t peak);

/* A frame as a model takes it. level: of its window. */
void mct_mfcc_quantize(const mct_mfcc_quantization *p, const int16_t *frame, int32_t level,
                       int8_t *x);

/* The same for programs that keep frames until a window is complete: a frame's largest sample
 * follows its coefficients. mct_mfcc_look: the level of `count` of the
 * `size` frames of a ring, from number `begin` on.
 * mct_mfcc_finish: a frame less its window's level, within 16 bits. */
uint32_t mct_mfcc_push_kept(mct_mfcc *mfcc, const int16_t *samples, uint32_t count, int32_t *work,
                            int16_t *kept, int32_t *is_frame);
int32_t mct_mfcc_look(const int16_t *ring, uint32_t size, uint32_t begin, uint32_t count);
void mct_mfcc_finish(const int16_t *frame, int32_t level, int16_t *features);

#ifdef __cplusplus
}
#endif

#endif
