/* Which positions a sliding window connects. */
#ifndef MCT_WINDOW_H
#define MCT_WINDOW_H

#include "mct_types.h"

/* The output row (or column) whose tap `tap` reads the input row i; -1 if there is none. */
static inline int32_t mct_window_source(int32_t i, int32_t tap, int32_t dilation, int32_t pad,
                                        int32_t stride, int32_t size) {
    const int32_t shifted = i + pad - tap * dilation;
    if (shifted < 0 || shifted % stride != 0 || shifted / stride >= size) {
        return -1;
    }
    return shifted / stride;
}

/* The position in an image `from` (row * w + column) that feeds input (iy, ix) through the tap
 * number `tap` of the window, or -1. */
static inline int32_t mct_window_source_2d(const mct_window *win, const mct_shape *from, int32_t iy,
                                           int32_t ix, int32_t tap) {
    const int32_t row = mct_window_source(iy, tap / win->kernel_w, win->dilation_h, win->pad_top,
                                          win->stride_h, from->h);
    const int32_t column = mct_window_source(ix, tap % win->kernel_w, win->dilation_w,
                                             win->pad_left, win->stride_w, from->w);
    return row < 0 || column < 0 ? -1 : row * from->w + column;
}

/* The position in an image `of` that the tap number `tap` reads for output (row, column), or -1. */
static inline int32_t mct_window_tap_2d(const mct_window *win, const mct_shape *of, int32_t row,
                                        int32_t column, int32_t tap) {
    const int32_t iy = row * win->stride_h + tap / win->kernel_w * win->dilation_h - win->pad_top;
    const int32_t ix =
        column * win->stride_w + tap % win->kernel_w * win->dilation_w - win->pad_left;
    const int inside = iy >= 0 && iy < of->h && ix >= 0 && ix < of->w;
    return inside ? iy * of->w + ix : -1;
}

#endif
