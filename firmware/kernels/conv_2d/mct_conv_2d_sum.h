/* The inner sums of the portable convolution bodies. */
#ifndef MCT_CONV_2D_SUM_H
#define MCT_CONV_2D_SUM_H

#include "mct_conv_2d.h"
#include "mct_window.h"

/* An int32, unless a body has chosen int64 before. */
#ifndef MCT_SUM
#define MCT_SUM int32_t
#endif

/* A partly trained weight: its convolution, what is trained, and the first of the columns that must be
 * read from the weight itself. */
typedef struct {
    const mct_conv_2d_s8_params *p;
    const int8_t *trained;
    int32_t first;
} mct_conv_2d_parts;

static inline mct_conv_2d_parts mct_conv_2d_parts_of(const mct_conv_2d_s8_params *p,
                                                     const int8_t *trained) {
    const int32_t first = p->trained.channels == NULL ? p->trained.columns : 0;
    return (mct_conv_2d_parts){p, trained, first};
}

/* sum of (x - x_zero_point) * w at a tap, where trained columns lie between the others. A function of its
 * own, of four arguments, so that other convolutions need no stack for it. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static MCT_SUM mct_conv_2d_sum_apart(const mct_conv_2d_parts *parts, const int8_t *x,
                                     const int8_t *w, int32_t tap) {
    const mct_trained_columns *columns = &parts->p->trained;
    const int8_t *trained = parts->trained + tap * columns->columns;
    const int32_t x_zero_point = parts->p->x_zero_point, channels = parts->p->x.c;
    MCT_SUM sum = 0;
    int32_t i = 0;
    for (int32_t j = 0; j <= columns->columns; j++) {
        const int32_t end = j < columns->columns ? columns->channels[j] : channels;
        for (; i < end; i++) {
            sum += (x[i] - x_zero_point) * w[i];
        }
        if (i < channels) {
            sum += (x[i] - x_zero_point) * trained[j];
            i++;
        }
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
            if (parts != NULL && parts->trained != NULL && parts->first == 0) {
                sum += mct_conv_2d_sum_apart(parts, xs, ws, tap);
                continue;
            }
            for (int32_t i = parts == NULL ? 0 : parts->first; i < shape->c; i++) {
                sum += (xs[i] - x_zero_point) * ws[i];
            }
            if (parts != NULL && parts->trained != NULL) {
                const int8_t *trained = parts->trained + tap * parts->first;
                for (int32_t j = 0; j < parts->first; j++) {
                    sum += (xs[j] - x_zero_point) * trained[j];
                }
            }
        }
    }
    return sum;
}

#endif
