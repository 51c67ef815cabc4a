/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the taps of a depthwise convolution's weights, in assembly where there is the DSP extension, in C
 * elsewhere. Fields are read by their offset: their order is fixed. */
#ifndef MCT_DSP_TAPS_H
#define MCT_DSP_TAPS_H

#include "mct_dsp.h"

/* Taps next to each other that are added up at a time. */
#define MCT_TAPS_WIDTH 4

/* sums[row][j] += sum over n < 8 * quads of dy[n] * x[row][n + j], j < width
 *
 * dy, x: int16, two in a word. A row of x is `pitch` bytes behind the one before; up to 8 * quads + 4 of its
 * numbers are read. */
typedef struct {
    const uint32_t *dy, *x;
    int32_t quads; /* 1 or more */
    int32_t *sums; /* [rows][width] */
    int32_t pitch;
    int32_t to_next; /* from a row of sums to the next, in bytes */
    int32_t rows;    /* 1 or more */
} mct_tile_taps;

/* width: 1 to MCT_TAPS_WIDTH */
void mct_tile_taps_run(const mct_tile_taps *t, int32_t width);

#endif
