/* SPDX-License-Identifier: Apache-2.0 */
/* What stands out in a stream of raw samples: when a window holds the sound, or the movement, that
 * just began.
 *
 * mcutrain/frontends/trigger.py computes the same. A frame's activity is the sum of |x[i] - x[i-1]| of
 * its samples, so a microphone's offset and gravity do not count. The background follows it, down
 * quickly and up slowly. A frame is loud if its activity is above a floor and above so many sixteenths
 * of the background. Integers only, no memory of its own. */
#ifndef MCT_TRIGGER_H
#define MCT_TRIGGER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_MOST_ACTIVITY 0xFFFFFFu /* larger ones count as this */

typedef struct {
    uint32_t activity;   /* of the frame that is heard now, so far */
    uint32_t background; /* with 6 fraction bits */
    uint32_t frames;     /* since the begin, at most those of a window */
    uint32_t waiting;    /* frames until the window of what began is complete; 0: nothing began */
    uint32_t loud;       /* frames in a row, at most those that begin something */
    uint8_t has_last;    /* 1: there was a sample before */
    uint8_t is_armed;    /* 1: it was quiet since the last window */
} mct_trigger;

/* window: frames of a window. before: of them those that come before the first loud one. least: loud
 * frames in a row that begin something, 1 or more. before + least <= window. ratio: sixteenths, at
 * most 255. */
typedef struct {
    uint32_t window, before, least;
    uint32_t floor, ratio;
} mct_trigger_params;

/* Take samples of the frame that is heard now, of `width` numbers each, at most 65,000 numbers. last:
 * the sample before, `width` numbers. */
void mct_trigger_add(mct_trigger *trigger, int16_t *last, uint32_t width, const int16_t *samples,
                     uint32_t count);

/* The frame is complete: *activity is that of it. Returns 1 if a window of what began ends with it. */
int32_t mct_trigger_frame(mct_trigger *trigger, const mct_trigger_params *params,
                          uint32_t *activity);

/* The same of a camera, whose `activity` is the sum of |changes| of an image's numbers: returns 1 for an
 * image that is still, at most `floor`, behind one that was not. The first one is not. */
int32_t mct_trigger_still(mct_trigger *trigger, uint32_t floor, uint32_t *activity);

/* How many frames ago the window of most activity ended, of those that lie in a ring of `size`
 * frames, `kept` of them, the next one's place is `next`; of equal ones the last. kept >= window. */
uint32_t mct_trigger_loudest(const uint32_t *activities, uint32_t size, uint32_t kept,
                             uint32_t next, uint32_t window);

#ifdef __cplusplus
}
#endif

#endif
