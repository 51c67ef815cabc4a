/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_depthwise_phase.h"

/* Along one axis: the tap that comes first in the phase's kernel, how many there are, the padding, and
 * how many results. */
typedef struct {
    int32_t tap, taps, pad, results;
} mct_depthwise_axis;

static mct_depthwise_axis mct_depthwise_axis_of(int32_t begin, int32_t size, int32_t kernel,
                                                int32_t stride, int32_t pad) {
    const int32_t least = (begin + pad) % stride;
    const int32_t taps = (kernel - least + stride - 1) / stride;
    return (mct_depthwise_axis){
        .tap = least + stride * (taps - 1),
        .taps = taps,
        .pad = taps - 1 - (begin + pad) / stride,
        .results = (size - begin + stride - 1) / stride,
    };
}

int mct_depthwise_phase(const mct_shape *dx, const mct_window *win, const int8_t *w, int32_t row,
                        int32_t column, mct_depthwise *d) {
    if (d->turned) {
        mct_depthwise_turn(d);
    }
    const mct_depthwise_axis rows =
        mct_depthwise_axis_of(row, dx->h, win->kernel_h, win->stride_h, win->pad_top);
    const mct_depthwise_axis columns =
        mct_depthwise_axis_of(column, dx->w, win->kernel_w, win->stride_w, win->pad_left);
    d->rows = rows.results;
    d->columns = columns.results;
    d->kernel_h = rows.taps;
    d->kernel_w = columns.taps;
    d->stride_h = 1;
    d->stride_w = 1;
    d->pad_top = rows.pad;
    d->pad_left = columns.pad;
    d->w = w + (rows.tap * win->kernel_w + columns.tap) * dx->c;
    d->w_row = -win->stride_h * win->kernel_w * dx->c;
    d->w_column = -win->stride_w * dx->c;
    return rows.results > 0 && columns.results > 0 && mct_depthwise_choose(d);
}

int mct_depthwise_has_phases(const mct_shape *dx, const mct_window *win, const int8_t *w,
                             mct_depthwise *d) {
    if (dx->c != d->from.c || win->dilation_h != 1 || win->dilation_w != 1) {
        return 0;
    }
    for (int32_t row = 0; row < win->stride_h; row++) {
        for (int32_t column = 0; column < win->stride_w; column++) {
            if (!mct_depthwise_phase(dx, win, w, row, column, d) && d->rows > 0 && d->columns > 0) {
                return 0;
            }
        }
    }
    return 1;
}

int mct_depthwise_is_whole(const mct_depthwise_target *to, const mct_depthwise_block *b) {
    return to->row_step == 1 && to->column_step == 1 && b->columns == to->dx->w && !b->d.turned;
}

mct_depthwise_place mct_depthwise_place_of(const mct_depthwise_target *to,
                                           const mct_depthwise_block *b, int32_t row) {
    const int turned = b->d.turned, whole = mct_depthwise_is_whole(to, b);
    const int32_t strip_row = b->row + row, channels = to->dx->c, width = to->dx->w;
    const int32_t at_row = to->row + (turned ? b->column : strip_row) * to->row_step;
    const int32_t at_column = to->column + (turned ? strip_row : b->column) * to->column_step;
    return (mct_depthwise_place){
        .first = (at_row * width + at_column) * channels + b->c,
        .step = (turned ? to->row_step * width : to->column_step) * channels,
        .count = whole ? b->rows * b->columns : b->columns,
    };
}
