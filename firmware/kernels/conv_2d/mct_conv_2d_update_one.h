/* SPDX-License-Identifier: Apache-2.0 */
/* The update of a convolution that has one output position, as fully connected layers have: a weight's
 * gradient is one product, dy[o] * (x[i] - x_zero_point). */
#ifndef MCT_CONV_2D_UPDATE_ONE_H
#define MCT_CONV_2D_UPDATE_ONE_H

#include "mct_conv_2d.h"
#include "mct_window.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The window's inputs less their zero point, 0 outside the image: [kernel_h][kernel_w][channels of x] */
static inline void mct_conv_2d_inputs_of_one(const mct_conv_2d_update_weight_s8_params *p,
                                             const int8_t *x, int32_t *inputs) {
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t at = mct_window_tap_2d(&p->window, &p->x, 0, 0, tap);
        for (int32_t i = 0; i < p->x.c; i++) {
            *inputs++ = at < 0 ? 0 : x[at * p->x.c + i] - p->x_zero_point;
        }
    }
}

/* mct_conv_2d_update_weight_s8 where dy has one position. */
static inline void mct_conv_2d_update_one(const mct_conv_2d_update_weight_s8_params *p,
                                          const mct_updater *updater, const int8_t *dy,
                                          const int8_t *x, int32_t *scratch) {
    const int32_t row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    mct_conv_2d_inputs_of_one(p, x, scratch);
    for (int32_t o = 0; o < p->dy.c; o++) {
        if (dy[o] == 0) {
            mct_update_nothing_s8(updater, o * row, row);
        } else {
            const mct_rate rate = mct_update_rate(updater, o);
            mct_update_scaled_s8(updater, &rate, dy[o], scratch, o * row, row);
        }
    }
}

#ifdef __cplusplus
}
#endif

#endif
