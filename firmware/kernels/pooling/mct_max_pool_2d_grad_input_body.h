/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_max_pool_2d_grad_input_<type>. */
#include "mct_window.h"

/* Whether channel c at input (iy, ix) is the first largest of the window `part`, row by row. */
static int mct_is_first_largest(const MCT_PARAMS(mct_max_pool_2d_grad_input) *p,
                                const mct_window_part *part, const int8_t *x, int32_t iy,
                                int32_t ix, int32_t c) {
    const int32_t position = iy * p->dx.w + ix;
    const int32_t value = x[position * p->dx.c + c];
    for (int32_t row = part->rows.begin; row < part->rows.end; row++) {
        const int32_t y = part->first_y + row * p->window.dilation_h;
        for (int32_t column = part->columns.begin; column < part->columns.end; column++) {
            const int32_t at = y * p->dx.w + part->first_x + column * p->window.dilation_w;
            const int32_t other = x[at * p->dx.c + c];
            if (other > value || (other == value && at < position)) {
                return 0;
            }
        }
    }
    return 1;
}

void MCT_NAME(mct_max_pool_2d_grad_input)(const MCT_PARAMS(mct_max_pool_2d_grad_input) *p,
                                          const mct_step *step, const MCT_GRAD *dy,
                                          const mct_exponent *dy_exponent, const int8_t *x,
                                          const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                          MCT_ACC *scratch) {
    const mct_window *win = &p->window;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
        const int32_t iy = position / p->dx.w;
        const int32_t ix = position % p->dx.w;
        const mct_span rows = mct_window_readers(iy, win->kernel_h, win->dilation_h, win->pad_top,
                                                 win->stride_h, p->dy.h);
        const mct_span columns = mct_window_readers(ix, win->kernel_w, win->dilation_w,
                                                    win->pad_left, win->stride_w, p->dy.w);
        for (int32_t c = 0; c < p->dx.c; c++) {
            scratch[c] = 0;
        }
        for (int32_t row = rows.begin; row < rows.end; row++) {
            for (int32_t column = columns.begin; column < columns.end; column++) {
                const mct_window_part part = mct_window_inside(win, &p->dx, row, column);
                if (!mct_window_has_tap(win, &part, iy, ix)) {
                    continue;
                }
                const MCT_GRAD *from = dy + (row * p->dy.w + column) * p->dy.c;
                for (int32_t c = 0; c < p->dx.c; c++) {
                    scratch[c] += mct_is_first_largest(p, &part, x, iy, ix, c) ? from[c] : 0;
                }
            }
        }
        const int32_t first = position * p->dx.c;
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->dx.c, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
