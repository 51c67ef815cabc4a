/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weights times the terms of one position, as a fully connected layer has it: two rows at a time. */
#ifndef MCT_DSP_ROWS_H
#define MCT_DSP_ROWS_H

#include "mct_dsp.h"

typedef struct {
    const uint32_t *terms; /* of mct_dot2, zeros behind the last one */
    int32_t depth;         /* how many terms */
    const int8_t *w;       /* the first row's */
    int32_t row;           /* from one row to the next */
    const int8_t *end;     /* of all weights: nothing is read from there on */
    int32_t count;         /* of rows */
} mct_dsp_rows;

/* sums[i] += sum over k < depth of terms[k] * w[i * row + k] */
void mct_dsp_rows_add(const mct_dsp_rows *rows, int32_t *sums);

#endif
