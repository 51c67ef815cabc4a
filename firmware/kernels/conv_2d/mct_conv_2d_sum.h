/* The inner sums of the portable convolution bodies. */
#ifndef MCT_CONV_2D_SUM_H
#define MCT_CONV_2D_SUM_H

#include "mct_types.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* A partly trained weight: where its trained columns are, NULL if there are none. */
typedef struct {
    const mct_trained_columns *columns;
    const int8_t *trained;
    int32_t first; /* of the columns that must be read from the weight itself */
    int32_t apart; /* trained columns that lie between these */
} mct_conv_2d_parts;

static inline mct_conv_2d_parts mct_conv_2d_parts_of(const mct_trained_columns *columns,
                                                     const int8_t *trained) {
    const int32_t first = columns->channels == NULL ? columns->columns : 0;
    return (mct_conv_2d_parts){columns, trained, first, columns->columns - first};
}

/* sum of (x - x_zero_point) * w over the channels i … end - 1 */
static inline MCT_SUM mct_conv_2d_run(const int8_t *x, const int8_t *w, int32_t x_zero_point,
                                      int32_t i, int32_t end) {
    MCT_SUM sum = 0;
    for (; i < end; i++) {
        sum += (x[i] - x_zero_point) * w[i];
    }
    return sum;
}

/* sum of (x - x_zero_point) * w at one tap, where trained columns lie between the others */
static inline MCT_SUM mct_conv_2d_sum_apart(const mct_conv_2d_parts *parts, int32_t x_zero_point,
                                            const int8_t *x, const int8_t *w, const int8_t *trained,
                                            int32_t channels) {
    MCT_SUM sum = 0;
    int32_t i = 0;
    for (int32_t j = 0; j < parts->apart; j++) {
        const int32_t channel = parts->columns->channels[j];
        sum += mct_conv_2d_run(x, w, x_zero_point, i, channel);
        sum += (x[channel] - x_zero_point) * trained[j];
        i = channel + 1;
    }
    return sum + mct_conv_2d_run(x, w, x_zero_point, i, channels);
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
            if (parts == NULL || parts->trained == NULL) {
                sum += mct_conv_2d_run(xs, ws, x_zero_point, 0, shape->c);
                continue;
            }
            const int8_t *trained = parts->trained + tap * parts->columns->columns;
            if (parts->apart > 0) {
                sum += mct_conv_2d_sum_apart(parts, x_zero_point, xs, ws, trained, shape->c);
                continue;
            }
            sum += mct_conv_2d_run(xs, ws, x_zero_point, parts->first, shape->c);
            sum += mct_conv_2d_run(xs, trained, x_zero_point, 0, parts->first);
        }
    }
    return sum;
}

#endif
