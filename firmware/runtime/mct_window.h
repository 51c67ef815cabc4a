/* SPDX-License-Identifier: Apache-2.0 */
/* Which positions a sliding window connects. */
#ifndef MCT_WINDOW_H
#define MCT_WINDOW_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Numbers from begin to end - 1; none if begin >= end. */
typedef struct {
    int32_t begin, end;
} mct_span;

/* The taps of a window that begins at input row (or column) `first` and lie inside the image. */
static inline mct_span mct_window_taps(int32_t first, int32_t kernel, int32_t dilation,
                                       int32_t size) {
    mct_span taps = {0, kernel};
    if (first < 0) {
        taps.begin = dilation == 1 ? -first : (dilation - 1 - first) / dilation;
    }
    if (first + (kernel - 1) * dilation >= size) {
        taps.end = first >= size ? 0 : (size - 1 - first) / dilation + 1;
    }
    return taps;
}

/* The output rows (or columns) whose windows reach over the input row i; a dilated window may still
 * not have a tap there. */
static inline mct_span mct_window_readers(int32_t i, int32_t kernel, int32_t dilation, int32_t pad,
                                          int32_t stride, int32_t size) {
    const int32_t before = i + pad - (kernel - 1) * dilation - 1;
    const int32_t last = (i + pad) / stride;
    return (mct_span){before < 0 ? 0 : before / stride + 1, last < size ? last + 1 : size};
}

/* The taps of output (row, column) that lie inside the image `of`. */
typedef struct {
    int32_t first_y, first_x;
    mct_span rows, columns;
} mct_window_part;

static inline mct_window_part mct_window_inside(const mct_window *win, const mct_shape *of,
                                                int32_t row, int32_t column) {
    const int32_t y = row * win->stride_h - win->pad_top;
    const int32_t x = column * win->stride_w - win->pad_left;
    return (mct_window_part){y, x, mct_window_taps(y, win->kernel_h, win->dilation_h, of->h),
                             mct_window_taps(x, win->kernel_w, win->dilation_w, of->w)};
}

/* Whether an output whose window reaches over input (iy, ix) has a tap there. */
static inline int mct_window_has_tap(const mct_window *win, const mct_window_part *part, int32_t iy,
                                     int32_t ix) {
    return (win->dilation_h == 1 || (iy - part->first_y) % win->dilation_h == 0) &&
           (win->dilation_w == 1 || (ix - part->first_x) % win->dilation_w == 0);
}

static inline int32_t mct_window_count(const mct_window_part *part) {
    return (part->rows.end - part->rows.begin) * (part->columns.end - part->columns.begin);
}

#ifdef __cplusplus
}
#endif

#endif
