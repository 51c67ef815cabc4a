/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a motion sensor become windows, or features of windows.
 *
 * mcutrain/frontends/motion.py computes the same, and says how. Integers only, no recursion, no
 * memory of its own: a ring of one window, which features are computed from where they lie. */
#ifndef MCT_MOTION_H
#define MCT_MOTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_MOTION_MOST_AXES 9
#define MCT_MOTION_MOST_ROWS 512

/* Features of a channel, in this order; the bands follow. */
#define MCT_MOTION_MEAN 1u
#define MCT_MOTION_RMS 2u
#define MCT_MOTION_CROSSINGS 4u

typedef struct {
    const int16_t *mults;      /* of each axis, at most 2^14 in size */
    const uint8_t *shifts;     /* 0 ... 30 */
    const uint16_t *band_ends; /* the bin behind each band, rising, 2 ... points / 2 */
    uint16_t window;           /* rows, 1 ... 512 */
    uint16_t step;             /* rows from one window to the next, at least 1 */
    uint16_t points;           /* of the Fourier transform: 32, 128, 512, not less than window */
    uint8_t axes;              /* 1 ... 9 */
    uint8_t magnitude_axes;    /* 0, 2, 3 */
    uint8_t gravity_shift;     /* 0: gravity stays; 1 ... 15 */
    uint8_t features;          /* which: a sum of the above */
    uint8_t bands;
} mct_motion_params;

typedef struct {
    int32_t gravity[MCT_MOTION_MOST_AXES]; /* times 2^gravity_shift, below 2^30 */
    uint16_t next;                         /* the row of the ring that comes next */
    uint16_t due;                          /* rows until a window is complete */
    uint8_t is_warm;                       /* gravity is known */
} mct_motion;

/* Forget all rows. */
void mct_motion_reset(mct_motion *motion, const mct_motion_params *p);

/* Take a row of the sensor, a number for each axis. Returns 1 if a window is complete, else 0. rows:
 * [window][channels], a ring; channels are the axes and the magnitude. */
int32_t mct_motion_push(mct_motion *motion, const mct_motion_params *p, int16_t *rows,
                        const int16_t *row);

/* Row i of the window, 0 the oldest: a number for each channel. */
const int16_t *mct_motion_row(const mct_motion *motion, const mct_motion_params *p,
                              const int16_t *rows, uint32_t i);

/* The features of a complete window, those of a channel side by side. work: `points` numbers, free
 * between calls; none are needed without bands. */
void mct_motion_features(const mct_motion *motion, const mct_motion_params *p, const int16_t *rows,
                         int32_t *work, int16_t *features);

#ifdef __cplusplus
}
#endif

#endif
