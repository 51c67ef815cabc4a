/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of two int8, one of which needs no multiplier, in assembly where there is the DSP extension, in C
 * elsewhere. Fields are read by their offset: their order is fixed. */
#ifndef MCT_DSP_ADD_H
#define MCT_DSP_ADD_H

#include "mct_dsp.h"

/* How far an int8 is shifted to the left before it is multiplied. */
#define MCT_TILE_ADD_SHIFT 20

/* twice = start + whole * 2^20 + 2 * (product(other) >> other_bits), of
 *     product(other) = other_half + x * other_mult_q31 / 2^32, less 1 if x < 0,
 *     x = other_start + other * 2^21;
 * y = (half + twice * mult_q31 / 2^32, less 1 if twice < 0) >> bits, halved, in int8's range. Products are
 * rounded half up. end: of `whole`, a multiple of 4 behind it and more. y may be an operand. */
typedef struct {
    const int8_t *whole, *other;
    int8_t *y;
    const int8_t *end;
    int32_t start, other_start;
    int32_t other_mult_q31, other_half, other_bits;
    int32_t mult_q31, half, bits;
} mct_tile_add;

void mct_tile_add_run(const mct_tile_add *t);

#endif
