/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_tiled_position.h"

/* All channels at a position. */
static void mct_conv_logits(const mct_conv_2d_s32_params *p, const int8_t *x, const int8_t *w,
                            const mct_window_part *part, int32_t *y) {
    const mct_window *win = &p->window;
    const int32_t ins = p->x.c, depth = win->kernel_h * win->kernel_w * ins;
    /* neighbouring taps lie next to each other, unless they are dilated */
    const int32_t taps = win->dilation_w == 1 ? part->columns.end - part->columns.begin : 1;
    const int32_t rows = part->rows.end - part->rows.begin;
    for (int32_t kx = part->columns.begin; kx < part->columns.end; kx += taps) {
        const int32_t row = part->first_y + part->rows.begin * win->dilation_h;
        const int32_t column = part->first_x + kx * win->dilation_w;
        const mct_tiled_runs runs = {
            .runs = rows,
            .terms = taps * ins,
            .x = x + (row * p->x.w + column) * ins,
            .w = (part->rows.begin * win->kernel_w + kx) * ins,
            .x_next = win->dilation_h * p->x.w * ins,
            .w_next = win->kernel_w * ins,
            .zero_point = p->x_zero_point,
        };
        mct_tiled_add_runs(&runs, w, depth, p->y.c, y);
    }
}

void mct_conv_2d_s32(const mct_conv_2d_s32_params *p, const int8_t *x, const int8_t *w,
                     const int32_t *b, int32_t *y) {
    for (int32_t row = 0; row < p->y.h; row++) {
        for (int32_t column = 0; column < p->y.w; column++, y += p->y.c) {
            const mct_window_part part = mct_window_inside(&p->window, &p->x, row, column);
            for (int32_t o = 0; o < p->y.c; o++) {
                y[o] = b[o];
            }
            mct_conv_logits(p, x, w, &part, y);
        }
    }
}
