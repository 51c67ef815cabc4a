/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_fixedpoint.h"
#include "mct_pooling.h"
#include "mct_window.h"

static int32_t mct_window_largest(const mct_max_pool_2d_s8_params *p, const mct_window_part *part,
                                  const int8_t *x) {
    const int32_t step = p->window.dilation_w * p->x.c;
    const int32_t left = part->first_x + part->columns.begin * p->window.dilation_w;
    int32_t largest = -128;
    for (int32_t tap = part->rows.begin; tap < part->rows.end; tap++) {
        const int32_t row = part->first_y + tap * p->window.dilation_h;
        const int8_t *at = x + (row * p->x.w + left) * p->x.c;
        for (int32_t i = part->columns.begin; i < part->columns.end; i++, at += step) {
            largest = mct_max(largest, *at);
        }
    }
    return largest;
}

void mct_max_pool_2d_s8(const mct_max_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                        uint8_t *mask) {
    int32_t i = 0;
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++) {
            const mct_window_part part = mct_window_inside(&p->window, &p->x, row, column);
            for (int32_t c = 0; c < p->y.c; c++) {
                const int32_t largest = mct_window_largest(p, &part, x + c);
                mct_clamp_store(largest, p->low, p->high, i++, y, mask);
            }
        }
    }
}
