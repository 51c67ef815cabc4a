/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of one tap of a depthwise convolution's weight gradient: [trained_channels]. */
#include "mct_window.h"

static void mct_depthwise_weight_tap(const mct_shape *x_shape, const mct_shape *dy_shape,
                                     const mct_window *win, int32_t x_zero_point,
                                     const int16_t *x_columns, const int16_t *channels,
                                     int32_t count, const MCT_GRAD *dy, const int8_t *x,
                                     int32_t tap, MCT_ACC *sums) {
    for (int32_t j = 0; j < count; j++) {
        sums[j] = 0;
    }
    for (int32_t position = 0; position < dy_shape->h * dy_shape->w; position++) {
        const int32_t at =
            mct_window_tap_2d(win, x_shape, position / dy_shape->w, position % dy_shape->w, tap);
        if (at < 0) {
            continue;
        }
        const int8_t *xs = x + at * x_shape->c;
        const MCT_GRAD *ds = dy + position * dy_shape->c;
        for (int32_t j = 0; j < count; j++) {
            const int32_t i = x_columns != NULL ? x_columns[j] : j;
            const int32_t c = channels != NULL ? channels[j] : j;
            sums[j] += (MCT_ACC)(ds[c] * (xs[i] - x_zero_point));
        }
    }
}
