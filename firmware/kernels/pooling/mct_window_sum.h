/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of one channel over the part of a window that lies inside the image.
 *
 * x: [of.h][of.w][of.c], from the channel on. |sum| <= 128 * elements of the part. */
#ifndef MCT_WINDOW_SUM_H
#define MCT_WINDOW_SUM_H

#include "mct_window.h"

static inline int32_t mct_window_sum(const mct_window *window, const mct_shape *of,
                                     const mct_window_part *part, const int8_t *x) {
    const int32_t step = window->dilation_w * of->c;
    const int32_t left = part->first_x + part->columns.begin * window->dilation_w;
    int32_t sum = 0;
    for (int32_t tap = part->rows.begin; tap < part->rows.end; tap++) {
        const int32_t row = part->first_y + tap * window->dilation_h;
        const int8_t *at = x + (row * of->w + left) * of->c;
        for (int32_t i = part->columns.begin; i < part->columns.end; i++, at += step) {
            sum += *at;
        }
    }
    return sum;
}

#endif
