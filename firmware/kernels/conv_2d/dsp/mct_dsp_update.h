/* SPDX-License-Identifier: Apache-2.0 */
/* Updates of four neighbouring weights at a time, as mct_dsp_weight.h has their sums, and mct_dsp_weight16.h. These have
 * MCT_WEIGHT_ROWS output channels by turns, so that their rates are kept. */
#ifndef MCT_DSP_UPDATE_H
#define MCT_DSP_UPDATE_H

#include "mct_dsp_weight_image.h"
#include "mct_update.h"

typedef struct {
    const mct_updater *updater;
    int32_t row;                      /* weights of an output channel */
    int32_t channel[MCT_WEIGHT_ROWS]; /* whose rate is at this place; -1: none yet */
    mct_rate rate[MCT_WEIGHT_ROWS];
} mct_dsp_updated;

static inline mct_dsp_updated mct_dsp_updated_of(const mct_updater *updater, int32_t row) {
    mct_dsp_updated result;
    result.updater = updater;
    result.row = row;
    for (int32_t r = 0; r < MCT_WEIGHT_ROWS; r++) {
        result.channel[r] = -1;
    }
    return result;
}

static void mct_dsp_take_updated(void *result, int32_t o, int32_t first, int32_t columns,
                                 const mct_sums4 *sums) {
    mct_dsp_updated *to = result;
    const int32_t r = o % MCT_WEIGHT_ROWS;
    if (to->channel[r] != o) {
        to->channel[r] = o;
        to->rate[r] = mct_update_rate(to->updater, o);
    }
    mct_update_scaled_s8(to->updater, &to->rate[r], 1, sums->lane, first, columns);
}

static void mct_dsp_take_nothing(void *result, int32_t o) {
    const mct_dsp_updated *to = result;
    mct_update_nothing_s8(to->updater, o * to->row, to->row);
}

#endif
