/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of the DSP bodies whose registers a compiler cannot keep apart: in assembly where there
 * is the DSP extension, in C elsewhere. Fields are read by their offset: their order is fixed. */
#ifndef MCT_DSP_TILES_H
#define MCT_DSP_TILES_H

#include "mct_dsp.h"
#include "mct_dsp_requantize.h"

/* One channel after the other from `channel` up to `end`: four sums of a panel times a row of
 * weights, requantized by mct_dsp_store_plain to y, y + 1 … Each has bits >= 0; channel < end. */
typedef struct {
    int8_t *y;
    int32_t stride;
    int32_t skip; /* from the end of a row's last word to the next row; 0 or negative */
    const mct_dsp_channel *end;
    const uint32_t *panel;
    int32_t quads;
    const int8_t *w;
    const mct_dsp_channel *channel;
} mct_tile_channels;

void mct_tile_channels_run(const mct_tile_channels *t);

/* The same, and for each lane a byte, of which the highest bit says that the last channel did not
 * saturate, the bit below that the one before did not, and so on. */
uint32_t mct_tile_channels_noted(const mct_tile_channels *t);

/* Four sums of each channel from `channel` up to `end`, requantized as mct_tile_channels_run does; the second
 * returns what mct_tile_channels_noted returns. */
typedef struct {
    int8_t *y;
    int32_t stride;
    const mct_dsp_channel *end, *channel;
    const int32_t *sums;
} mct_tile_sums;

void mct_tile_sums_run(const mct_tile_sums *t);
uint32_t mct_tile_sums_noted(const mct_tile_sums *t);

/* Quads that a row of weights has at most below. */
#define MCT_TILE_ROW_QUADS 12

/* mct_tile_channels_run for several panels, one behind the other: a row of weights is unpacked once for
 * all of them. From a panel to the next, y moves four times the stride. */
typedef struct {
    int8_t *y;
    int32_t stride;
    int32_t row; /* of weights, in bytes */
    const mct_dsp_channel *end;
    const uint32_t *panel, *panel_end;
    int32_t quads; /* 1 … MCT_TILE_ROW_QUADS */
    const int8_t *w;
    const mct_dsp_channel *channel;
} mct_tile_panels;

void mct_tile_panels_run(const mct_tile_panels *t);

/* Four columns of int8 into a panel, doubled after `plus`, a pair, is added. words > 0 of each. Other panels
 * lie behind the first one, their columns `next` bytes behind the end of those before. */
typedef struct {
    const int8_t *columns[4];
    uint32_t plus;
    int32_t words;
    uint32_t *panel;
    int32_t next;
    int32_t panels; /* 1 or more */
} mct_tile_panel;

void mct_tile_panel_run(const mct_tile_panel *t);

/* Rows of four columns each, `stride` bytes apart, into a panel whose lanes are the columns; `plus`, a pair,
 * is added. quads > 0: of rows. */
typedef struct {
    const int8_t *from;
    int32_t stride;
    uint32_t plus;
    uint32_t *panel;
    int32_t quads;
} mct_tile_rows;

void mct_tile_rows_run(const mct_tile_rows *t);

/* Four sums for one position after the other: a panel times a stream, added to the sums or instead of
 * them, count > 0 times. */
typedef struct {
    const uint32_t *panel;
    int32_t quads;
    int32_t stride; /* from the end of a stream's last word to the next stream */
    int32_t count;
    const int8_t *stream;
    int32_t *sums; /* [count][4] */
} mct_tile_positions;

void mct_tile_positions_add(const mct_tile_positions *t);
void mct_tile_positions_start(const mct_tile_positions *t);

#endif
