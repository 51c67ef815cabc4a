/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a convolution over panels of four positions, for all output channels or those of a group. */
#ifndef MCT_DSP_CONV_H
#define MCT_DSP_CONV_H

#include "mct_dsp_columns.h"
#include "mct_dsp_requantize.h"

/* Output channels at a time: a multiple of 8, so that a mask's bytes are theirs alone. Of a weight that
 * is trained in part their rows are put together. */
#define MCT_CONV_CHANNELS 48
/* Where columns are deeper than a panel, half of them: sums, which wait for the next part, take the place of
 * the others. */
#define MCT_DEEP_CHANNELS (MCT_CONV_CHANNELS / 2)

typedef struct {
    mct_columns columns;
    mct_dsp_output out;
    const mct_trained_columns *columns_trained;
    const int8_t *w, *trained;
    int8_t *scratch;
    int32_t depth, most_outs;
    int32_t o, outs;          /* of the block */
    const int8_t *rows, *end; /* its weights */
    union {
        mct_dsp_channel channels[MCT_CONV_CHANNELS];
        struct {
            mct_dsp_channel channels[MCT_DEEP_CHANNELS];
            mct_sums4 sums[MCT_DEEP_CHANNELS];
        } deep;
    } block;
    uint8_t plain[MCT_CONV_CHANNELS]; /* how many channels from each one on go the short way */
    uint32_t panel[MCT_COLUMN_DEPTH * 2];
} mct_conv_job;

/* The output channels begin … end - 1 at all positions. */
void mct_conv_run(mct_conv_job *job, int32_t begin, int32_t end);

#endif
