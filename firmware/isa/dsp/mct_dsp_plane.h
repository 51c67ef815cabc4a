/* SPDX-License-Identifier: Apache-2.0 */
/* Channels of a depthwise convolution at a strip of rows, in assembly where there is the DSP
 * extension, in C elsewhere. Fields are read by their offset: their order is fixed. */
#ifndef MCT_DSP_PLANE_H
#define MCT_DSP_PLANE_H

#include "mct_dsp.h"
#include "mct_dsp_requantize.h"

/* Words from a channel's plane or weights to those of the next of four channels. */
#define MCT_POOL_WORDS 108

/* Rows of int8 pixels of four channels, less a zero point, into the channels' planes. The first fields
 * are the function's own once it runs. */
typedef struct {
    const int8_t *from; /* the first pixel */
    int32_t row_bytes;  /* from a row to the next */
    uint32_t *to;       /* the first channel's */
    int32_t pitch;      /* of a row of the plane, in bytes */
    int32_t rows;       /* 1 or more */
    int32_t lead;       /* 1: the first pixel comes behind a column of padding */
    int32_t quads;      /* of pixels, behind that one */
    int32_t rest;       /* pixels behind those, 0 to 3; padding makes them whole pairs */
    int32_t pixel;      /* from a pixel to the next, in bytes */
    uint32_t plus;      /* a pair, added to each pair of numbers */
} mct_tile_load;

void mct_tile_load_run(mct_tile_load *t);

/* A row of weights of four channels as pairs: `taps` weights, 1 or more, then `zeros` weights of 0, together
 * two or more. apart: 0: (0, 1), (1, 2) …; 1: (0, 1), (2, 3) …, an odd one with a 0 behind it. */
typedef struct {
    const int8_t *from;
    int32_t step; /* from a weight to the next, in bytes */
    uint32_t *to; /* the first channel's */
    int32_t taps, zeros;
    uint32_t twice; /* all ones: the weights are doubled; 0: they are not */
    int32_t apart;
} mct_tile_filter;

void mct_tile_filter_run(const mct_tile_filter *t);

/* Widths of a kernel that have a loop of their own, each at stride 1 and 2: narrower ones have weights
 * of 0 behind theirs. A kernel of width 3 here has 3 rows, the others any number. */
#define MCT_PLANE_WIDTH3 0
#define MCT_PLANE_WIDTH3_BY2 1
#define MCT_PLANE_WIDTH5 2
#define MCT_PLANE_WIDTH5_BY2 3
#define MCT_PLANE_WIDTH7 4
#define MCT_PLANE_WIDTH7_BY2 5

/* What becomes of the sums of four columns.
 * BYTES: mct_dsp_store_plain; NOTED: that, and a byte in which bit i says that the column i did not
 * saturate, to every fourth of `notes`; SUMS: the bare sums, as int32. */
#define MCT_PLANE_BYTES 0
#define MCT_PLANE_NOTED 1
#define MCT_PLANE_SUMS 2

/* sums[row][column] = channel.start + sum over ky, kx of plane[row, ky][column * stride + kx] * w[ky][kx]
 *
 * A plane holds int16, two in a word; filters: each row of weights, as mct_tile_filter_run makes them,
 * apart at stride 2. Of each row of the result the table has three numbers: where the three rows of the plane begin that
 * a kernel of width 3 covers; or, of wider ones, where the first row begins, where the first of the
 * weights' rows begins, and how many rows there are, 1 or more. All in bytes. The next channel's plane and
 * filters are MCT_POOL_WORDS on, its notes one. The first fields are the function's own once it runs. */
typedef struct {
    const mct_dsp_channel *channel;
    const uint32_t *plane;
    const uint32_t *filters;
    void *result;
    uint8_t *notes;
    int32_t channels;          /* 1 or more */
    const uint32_t *row, *end; /* of the table */
    int32_t stride;            /* from a column's result to the next, in bytes */
    int32_t groups;            /* of four columns, 1 or more */
    int32_t pitch;             /* of a row of the plane, in bytes */
    int32_t to_next;           /* from the last group's end to the next row, in bytes */
    int32_t to_channel;        /* from a channel's first result to that of the next, in bytes */
    int32_t kind;
    int32_t store;
} mct_tile_plane;

void mct_tile_plane_run(mct_tile_plane *t);

#endif
