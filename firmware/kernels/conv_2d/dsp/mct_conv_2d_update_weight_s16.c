/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_2d_update_one.h"
#include "mct_dsp_update.h"
#include "mct_dsp_weight16.h"

static int mct_all_fit(const int64_t *sums, int32_t count) {
    int fits = 1;
    for (int32_t l = 0; l < count; l++) {
        fits &= sums[l] == (int32_t)sums[l];
    }
    return fits;
}

static void mct_take_updated16(void *result, int32_t o, int32_t first, int32_t columns,
                               const int32_t *narrow, const int64_t *wide) {
    mct_dsp_updated *to = result;
    mct_sums4 sums;
    if (wide != NULL && !mct_all_fit(wide, columns)) {
        mct_update_row_wide_s8(to->updater, o, wide, first, columns);
        return;
    }
    for (int32_t l = 0; l < columns; l++) {
        sums.lane[l] = wide == NULL ? narrow[l] : (int32_t)wide[l];
    }
    mct_dsp_take_updated(to, o, first, columns, &sums);
}

static void mct_update_one16(const mct_conv_2d_update_weight_s16_params *p,
                             const mct_updater *updater, const int16_t *dy, const int8_t *x,
                             int32_t *inputs) {
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    mct_conv_2d_inputs_of_one(p, x, inputs);
    for (int32_t o = 0; o < p->dy.c; o++) {
        if (dy[o] == 0) {
            mct_update_nothing_s8(updater, o * row, row);
        } else {
            const mct_rate rate = mct_update_rate(updater, o);
            mct_update_scaled_s8(updater, &rate, dy[o], inputs, o * row, row);
        }
    }
}

void mct_conv_2d_update_weight_s16(const mct_conv_2d_update_weight_s16_params *p,
                                   const mct_step *step, const int16_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   int64_t *scratch) {
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    const int32_t positions = p->dy.h * p->dy.w;
    const mct_updater updater = mct_update_begin_s16(&p->parameter, step, dy_exponent, positions);
    if (positions == 1) {
        void *sums = scratch;
        mct_update_one16(p, &updater, dy, x, sums);
        return;
    }
    mct_dsp_updated result = mct_dsp_updated_of(&updater, row);
    const mct_weight_image image = {&p->x, &p->dy, &p->window, p->x_zero_point, x};
    mct_weight16_run(image, dy, mct_take_updated16, mct_dsp_take_nothing, &result);
}
