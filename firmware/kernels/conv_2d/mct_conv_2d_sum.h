/* The inner sums of the portable convolution bodies. */
#ifndef MCT_CONV_2D_SUM_H
#define MCT_CONV_2D_SUM_H

#include "mct_types.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* A partly trained weight: where its trained columns are, NULL if there are none, and the first of the
 * columns that must be read from the weight itself. */
typedef struct {
    const mct_trained_columns *columns;
    const int8_t *trained;
    int32_t first;
} mct_conv_2d_parts;

static inline mct_conv_2d_parts mct_conv_2d_parts_of(const mct_trained_columns *columns,
                                                     const int8_t *trained) {
    const int32_t first = columns->channels == NULL ? columns->columns : 0;
    return (mct_conv_2d_parts){columns, trained, first};
}

/* sum over the trained columns of (x - x_zero_point) * w, at one tap */
static inline MCT_SUM mct_conv_2d_trained_sum(const mct_conv_2d_parts *parts, int32_t x_zero_point,
                                              const int8_t *x, const int8_t *w) {
    const int16_t *channels = parts->columns->channels;
    MCT_SUM sum = 0;
    for (int32_t j = 0; j < parts->columns->columns; j++) {
        sum += (x[channels == NULL ? j : channels[j]] - x_zero_point) * w[j];
    }
    return sum;
}

/* sum over the window at (row, column) of (x - x_zero_point) * w[o]; parts: NULL for a weight in one
 * piece. Nothing is divided: a Cortex-M0+ needs more time for that than for all else of a tap. */
static inline MCT_SUM mct_conv_2d_sum(const mct_shape *shape, const mct_window *window,
                                      int32_t x_zero_point, const int8_t *x, const int8_t *w,
                                      const mct_conv_2d_parts *parts, int32_t o, int32_t row,
                                      int32_t column) {
    const int32_t left = column * window->stride_w - window->pad_left;
    int32_t tap = o * window->kernel_h * window->kernel_w;
    int32_t iy = row * window->stride_h - window->pad_top;
    MCT_SUM sum = 0;
    for (int32_t ky = 0; ky < window->kernel_h; ky++, iy += window->dilation_h) {
        int32_t ix = left;
        for (int32_t kx = 0; kx < window->kernel_w; kx++, tap++, ix += window->dilation_w) {
            if (iy < 0 || iy >= shape->h || ix < 0 || ix >= shape->w) {
                continue;
            }
            const int8_t *xs = x + (iy * shape->w + ix) * shape->c;
            const int8_t *ws = w + tap * shape->c;
            for (int32_t i = parts == NULL ? 0 : parts->first; i < shape->c; i++) {
                sum += (xs[i] - x_zero_point) * ws[i];
            }
            if (parts != NULL && parts->trained != NULL) {
                const int8_t *trained = parts->trained + tap * parts->columns->columns;
                sum += mct_conv_2d_trained_sum(parts, x_zero_point, xs, trained);
            }
        }
    }
    return sum;
}

#endif
