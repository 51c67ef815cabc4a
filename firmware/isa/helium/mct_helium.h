/* SPDX-License-Identifier: Apache-2.0 */
/* What the bodies for Helium (MVE, of Cortex-M55 and M85) take from it: Arm's intrinsics, by their own
 * names, and a few loops in assembly. With MCT_HELIUM_EMULATED, or without the extension, the same names
 * are plain C: slow, same bits. */
#ifndef MCT_HELIUM_H
#define MCT_HELIUM_H

#include <stdint.h>
#include <string.h>

/* Four rows of weights, of `depth` bytes, and what their sums start from, in the order of the registers
 * that one instruction loads them into. depth: at least 1. */
typedef struct {
    const int8_t *w0;
    int32_t sum0;
    const int8_t *w1;
    int32_t sum1;
    int32_t sum2;
    const int8_t *w2;
    int32_t sum3;
    const int8_t *w3;
    int32_t depth;
} mct_helium_rows;

/* What mct_helium_positions multiplies with four rows, and what becomes of it. x: moves by x_step, y by
 * y_step from one position to the next. */
typedef struct {
    mct_helium_rows rows;
    int32_t x_step, y_step;
    int32_t mult_q31[4], shift[4];
    int32_t zero_point, low, high;
} mct_helium_quad;

/* Bytes of a rectangle, and where they go. columns, rows: at least 1; eight columns are at most 65,535
 * bytes apart, on either side. */
typedef struct {
    int8_t *to;
    const int8_t *from;
    int32_t to_column, from_column; /* from one to the next */
    int32_t to_row, from_row;
    int32_t rows, columns;
} mct_helium_block;

#if defined(__ARM_FEATURE_MVE) && !defined(MCT_HELIUM_EMULATED)
#include "mct_helium_arm.h"
#else
#include "mct_helium_emulated.h"
#endif

#endif
