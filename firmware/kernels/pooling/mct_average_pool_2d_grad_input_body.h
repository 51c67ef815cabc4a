/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_average_pool_2d_grad_input_<type>. */
#include "mct_average_pool_2d_shares_any.h"

void MCT_NAME(mct_average_pool_2d_grad_input)(const MCT_PARAMS(mct_average_pool_2d_grad_input) *p,
                                              const mct_step *step, const MCT_GRAD *dy,
                                              const mct_exponent *dy_exponent, const uint8_t *mask,
                                              mct_exponent *exponent, MCT_GRAD *dx,
                                              MCT_ACC *scratch) {
    const mct_window *win = &p->window;
    const int is_dilated = win->dilation_h > 1 || win->dilation_w > 1;
    mct_span rows_before = {0, 0};
    mct_span columns_before = {0, 0};
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t iy = 0; iy < p->dx.h; iy++) {
        const mct_span rows = mct_window_readers(iy, win->kernel_h, win->dilation_h, win->pad_top,
                                                 win->stride_h, p->dy.h);
        for (int32_t ix = 0; ix < p->dx.w; ix++) {
            const mct_span columns = mct_window_readers(ix, win->kernel_w, win->dilation_w,
                                                        win->pad_left, win->stride_w, p->dy.w);
            /* Neighbours in the same windows get the same; in a global pool all do. */
            if (is_dilated || iy + ix == 0 || rows.begin != rows_before.begin ||
                rows.end != rows_before.end || columns.begin != columns_before.begin ||
                columns.end != columns_before.end) {
                mct_window_shares(p, iy, ix, rows, columns, dy, scratch);
            }
            rows_before = rows;
            columns_before = columns;
            const int32_t first = (iy * p->dx.w + ix) * p->dx.c;
            MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
