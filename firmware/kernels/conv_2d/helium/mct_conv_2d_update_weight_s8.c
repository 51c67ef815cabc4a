/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_2d_update_one.h"
#include "mct_helium_weight.h"

/* Of MCT_WEIGHT_ROWS output channels, which take turns, the rates are kept. */
typedef struct {
    const mct_updater *updater;
    int32_t channel[MCT_WEIGHT_ROWS]; /* whose rate is at this place; -1: none yet */
    mct_rate rate[MCT_WEIGHT_ROWS];
} mct_updated;

static void mct_take_updated(void *result, int32_t o, int32_t first, int32_t columns,
                             const int32_t *sums) {
    mct_updated *to = result;
    const int32_t r = o % MCT_WEIGHT_ROWS;
    if (to->channel[r] != o) {
        to->channel[r] = o;
        to->rate[r] = mct_update_rate(to->updater, o);
    }
    mct_update_scaled_s8(to->updater, &to->rate[r], 1, sums, first, columns);
}

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  int32_t *scratch) {
    const int32_t positions = p->dy.h * p->dy.w;
    const mct_updater updater = mct_update_begin_s8(&p->parameter, step, dy_exponent, positions);
    if (positions == 1) {
        mct_conv_2d_update_one(p, &updater, dy, x, scratch);
        return;
    }
    mct_updated result;
    result.updater = &updater;
    for (int32_t r = 0; r < MCT_WEIGHT_ROWS; r++) {
        result.channel[r] = -1;
    }
    mct_weight_run(&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, mct_take_updated, &result);
}
