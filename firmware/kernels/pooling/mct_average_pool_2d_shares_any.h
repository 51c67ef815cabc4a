/* SPDX-License-Identifier: Apache-2.0 */
/* What an input gets from the windows that read it; for bodies of any type of gradient. */
#include "mct_window.h"

/* The sums of all channels at input (iy, ix), over the outputs of `rows` and `columns`. */
static void mct_window_shares(const MCT_PARAMS(mct_average_pool_2d_grad_input) *p, int32_t iy,
                              int32_t ix, mct_span rows, mct_span columns, const MCT_GRAD *dy,
                              MCT_ACC *sums) {
    const mct_window *win = &p->window;
    for (int32_t c = 0; c < p->dx.c; c++) {
        sums[c] = 0;
    }
    for (int32_t row = rows.begin; row < rows.end; row++) {
        for (int32_t column = columns.begin; column < columns.end; column++) {
            const mct_window_part part = mct_window_inside(win, &p->dx, row, column);
            if (!mct_window_has_tap(win, &part, iy, ix)) {
                continue;
            }
            const int32_t share = p->common / mct_window_count(&part);
            const MCT_GRAD *from = dy + (row * p->dy.w + column) * p->dy.c;
            for (int32_t c = 0; c < p->dx.c; c++) {
                sums[c] += (MCT_ACC)from[c] * share;
            }
        }
    }
}
