/* SPDX-License-Identifier: Apache-2.0 */
/* Panels for streams of int16: a lane is one of four neighbouring columns of weights. For every two k a
 * panel holds the pairs (k, k + 1) of the four lanes, up to a multiple of 4, zeros behind the last k. */
#ifndef MCT_DSP_PAIRS_H
#define MCT_DSP_PAIRS_H

#include "mct_dsp_panel.h"

/* Rows 0 … depth - 1 of a matrix of int8, of 1 to 4 columns. */
void mct_pairs_rows(const int8_t *rows, int32_t stride, int32_t columns, int32_t depth,
                    uint32_t *panel);

/* sums += panel times a stream, of which it reads `depth` numbers. */
void mct_pairs_add(const uint32_t *panel, const int16_t *stream, int32_t depth, mct_sums4 *sums);

/* The same for one stream after the other, of 4 * quads numbers each. Fields are read by their offset:
 * their order is fixed. */
typedef struct {
    const uint32_t *panel;
    int32_t quads;  /* 1 or more */
    int32_t stride; /* from a stream's end to the next one, in bytes */
    int32_t count;  /* 1 or more */
    const int16_t *stream;
    int32_t *sums; /* [count][4] */
} mct_tile_pairs;

void mct_tile_pairs_run(const mct_tile_pairs *t);

#endif
