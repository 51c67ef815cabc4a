/* SPDX-License-Identifier: Apache-2.0 */
/* mct_gradient_write_s16 for sums that fit int32, without 64-bit shifts.
 *
 * fraction = sum * mult_q31 / 2^bits, rounded down, is (sum * 2^left) * mult_q31 / 2^31 / 2^right with left
 * = 31 - bits or 0, right = bits - 31 or 0. It fits int32 if sum * 2^left does; what does not is rare and
 * goes the portable way. */
#ifndef MCT_DSP_GRADIENT16_H
#define MCT_DSP_GRADIENT16_H

#include "mct_dsp_gradient.h"

typedef struct {
    int32_t mult_q31;
    int32_t left, right;
    int32_t portable; /* 1: the factor is so large that it is held */
} mct_factor16;

/* Of the channels c … c + count - 1, 1 to 4, of the sums of a writer. */
void mct_factors16_of(const mct_gradient_writer *writer, int32_t c, int32_t count,
                      mct_factor16 factors[4]);

/* The channels c … c + count - 1 at `positions` positions, the first of which is the element `first`; the
 * others follow `step` elements after each other. */
void mct_dsp_write_sums16(mct_gradient_writer *writer, const mct_factor16 factors[4],
                          mct_dsp_sums sums, int32_t c, int32_t count, int32_t first, int32_t step,
                          int32_t positions, int16_t *dx);

#endif
