/* Sums of products by tiles: a few positions times two channels, whose sums stay in registers, so that
 * a number is loaded once for several products.
 *
 * The loops are written out, because compilers unroll none where they save bytes (-Os). How large a
 * tile is decides the number of registers: what was best by executed instructions. */
#ifndef MCT_TILED_H
#define MCT_TILED_H

#include "mct_window.h"

#if defined(__GNUC__)
#define MCT_ALWAYS_INLINE inline __attribute__((always_inline))
#define MCT_APART __attribute__((noinline)) /* so that its caller has registers left */
#else
#define MCT_ALWAYS_INLINE inline
#define MCT_APART
#endif

/* The output columns whose windows reach over neither side of an image; none if begin >= end. */
static inline mct_span mct_tiled_inner(const mct_window *win, int32_t image_w, int32_t columns) {
    const int32_t room = image_w + win->pad_left - (win->kernel_w - 1) * win->dilation_w - 1;
    const int32_t end = room < 0 ? 0 : room / win->stride_w + 1;
    return (mct_span){(win->pad_left + win->stride_w - 1) / win->stride_w,
                      end < columns ? end : columns};
}

/* The tap of a window that lies so far from the window's begin; -1 if a dilated one has none there. */
static inline int32_t mct_tiled_tap(int32_t distance, int32_t dilation) {
    if (dilation == 1) {
        return distance;
    }
    return distance % dilation == 0 ? distance / dilation : -1;
}

/* mct_window_readers, without divisions where the stride is 1. */
static inline mct_span mct_tiled_readers(int32_t i, int32_t kernel, int32_t dilation, int32_t pad,
                                         int32_t stride, int32_t size) {
    if (stride != 1) {
        return mct_window_readers(i, kernel, dilation, pad, stride, size);
    }
    const int32_t begin = i + pad - (kernel - 1) * dilation, end = i + pad + 1;
    return (mct_span){begin > 0 ? begin : 0, end < size ? end : size};
}

/* The output rows (or columns) whose tap reads the image, which is `image` long. at: of the tap in the
 * first one, less what is padded. */
static inline mct_span mct_tiled_places(int32_t at, int32_t stride, int32_t image, int32_t size) {
    int32_t begin = at < 0 ? stride - 1 - at : 0, last = image - 1 - at;
    if (stride != 1) { /* a Cortex-M0+ does not divide */
        begin /= stride;
        last = last < 0 ? -1 : last / stride;
    }
    return (mct_span){begin, last + 1 < size ? last + 1 : size};
}

/* Positions of a tile, 2 or 4, and terms of its sums in one round of its loop, 1 or 4. */
#ifndef MCT_TILED_POSITIONS
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__) /* a product overwrites a factor */
#define MCT_TILED_POSITIONS 4
#define MCT_TILED_TERMS 1
#else
#define MCT_TILED_POSITIONS 2
#define MCT_TILED_TERMS 4
#endif
#endif

/* The sums of a channel at each position. */
typedef struct {
    int32_t at0, at1;
#if MCT_TILED_POSITIONS == 4
    int32_t at2, at3;
#endif
} mct_tiled_line;

typedef struct {
    mct_tiled_line first, second;
} mct_tiled_sums;

static MCT_ALWAYS_INLINE mct_tiled_line mct_tiled_line_from(int32_t start) {
#if MCT_TILED_POSITIONS == 4
    return (mct_tiled_line){start, start, start, start};
#else
    return (mct_tiled_line){start, start};
#endif
}

#define MCT_TILED_AT(p, n)                                                                         \
    {                                                                                              \
        const int32_t value = x##p[n];                                                             \
        s.first.at##p += value * first;                                                            \
        s.second.at##p += value * second;                                                          \
    }
#if MCT_TILED_POSITIONS == 4
#define MCT_TILED_REST(n) MCT_TILED_AT(2, n) MCT_TILED_AT(3, n)
#else
#define MCT_TILED_REST(n)
#endif
/* Term n of x's, by one weight of each channel. */
#define MCT_TILED_TERM(n, weight_0, weight_1)                                                      \
    {                                                                                              \
        const int32_t first = weight_0, second = weight_1;                                         \
        MCT_TILED_AT(0, n) MCT_TILED_AT(1, n) MCT_TILED_REST(n)                                    \
    }

/* The position p and channel c get the sum over k < terms of x[p * x_step + k] * w[c * w_step + k]. */
static MCT_ALWAYS_INLINE mct_tiled_sums mct_tiled_add(const int8_t *x, int32_t x_step,
                                                      const int8_t *w, int32_t w_step,
                                                      int32_t terms, mct_tiled_sums s) {
    const int8_t *x0 = x, *x1 = x0 + x_step, *w0 = w, *w1 = w0 + w_step;
#if MCT_TILED_POSITIONS == 4
    const int8_t *x2 = x1 + x_step, *x3 = x2 + x_step;
#endif
    int32_t k = 0;
#if MCT_TILED_TERMS == 4
    for (; k + 4 <= terms; k += 4) {
        MCT_TILED_TERM(0, w0[0], w1[0])
        MCT_TILED_TERM(1, w0[1], w1[1])
        MCT_TILED_TERM(2, w0[2], w1[2])
        MCT_TILED_TERM(3, w0[3], w1[3])
        x0 += 4;
        x1 += 4;
        w0 += 4;
        w1 += 4;
#if MCT_TILED_POSITIONS == 4
        x2 += 4;
        x3 += 4;
#endif
    }
#endif
    for (; k < terms; k++) {
        MCT_TILED_TERM(0, w0[0], w1[0])
        x0++;
        x1++;
        w0++;
        w1++;
#if MCT_TILED_POSITIONS == 4
        x2++;
        x3++;
#endif
    }
    return s;
}

/* The same with x[p * x_step + k] * w[k * w_row + c]: the channels' weights lie next to each other. */
static MCT_ALWAYS_INLINE mct_tiled_sums mct_tiled_add_rows(const int8_t *x, int32_t x_step,
                                                           const int8_t *w, int32_t w_row,
                                                           int32_t terms, mct_tiled_sums s) {
#if MCT_TILED_TERMS == 4
    const int8_t *x0 = x, *x1 = x0 + x_step;
#if MCT_TILED_POSITIONS == 4
    const int8_t *x2 = x1 + x_step, *x3 = x2 + x_step;
#endif
    for (; terms >= 4; terms -= 4) {
        MCT_TILED_TERM(0, w[0], w[1])
        w += w_row;
        MCT_TILED_TERM(1, w[0], w[1])
        w += w_row;
        MCT_TILED_TERM(2, w[0], w[1])
        w += w_row;
        MCT_TILED_TERM(3, w[0], w[1])
        w += w_row;
        x0 += 4;
        x1 += 4;
#if MCT_TILED_POSITIONS == 4
        x2 += 4;
        x3 += 4;
#endif
    }
    x = x0;
#endif
    for (const int8_t *end = x + terms; x < end; x++, w += w_row) {
        const int8_t *x0 = x, *x1 = x + x_step;
#if MCT_TILED_POSITIONS == 4
        const int8_t *x2 = x + 2 * x_step, *x3 = x + 3 * x_step;
#endif
        MCT_TILED_TERM(0, w[0], w[1])
    }
    return s;
}

/* The sums of two channels at one position. */
typedef struct {
    int32_t first, second;
} mct_tiled_two;

/* s[c] += sum over k < terms of (x[k] - zero_point) * w[c * w_step + k] */
static MCT_ALWAYS_INLINE mct_tiled_two mct_tiled_add_one(const int8_t *x, int32_t zero_point,
                                                         const int8_t *w, int32_t w_step,
                                                         int32_t terms, mct_tiled_two s) {
    const int8_t *w1 = w + w_step;
    for (const int8_t *end = x + terms; x < end; x++, w++, w1++) {
        const int32_t value = *x - zero_point;
        s.first += value * *w;
        s.second += value * *w1;
    }
    return s;
}

/* The same for x[k] * w[k * w_row + c * next] */
static MCT_ALWAYS_INLINE mct_tiled_two mct_tiled_add_one_rows(const int8_t *x, const int8_t *w,
                                                              int32_t w_row, int32_t next,
                                                              int32_t terms, mct_tiled_two s) {
    for (const int8_t *end = x + terms; x < end; x++, w += w_row) {
        const int32_t value = *x;
        s.first += value * w[0];
        s.second += value * w[next];
    }
    return s;
}

/* The sums of four neighbouring channels at one position. */
typedef struct {
    int32_t s0, s1, s2, s3;
} mct_tiled_four;

/* Each channel c gets the sum over k < terms of (x[k * x_step + c] - zero_point) * w[k * w_step + c]. */
static MCT_ALWAYS_INLINE mct_tiled_four mct_tiled_add_four(const int8_t *x, int32_t x_step,
                                                           int32_t zero_point, const int8_t *w,
                                                           int32_t w_step, int32_t terms,
                                                           mct_tiled_four s) {
    for (; terms > 0; terms--) {
        s.s0 += (x[0] - zero_point) * w[0];
        s.s1 += (x[1] - zero_point) * w[1];
        s.s2 += (x[2] - zero_point) * w[2];
        s.s3 += (x[3] - zero_point) * w[3];
        x += x_step;
        w += w_step;
    }
    return s;
}

#endif
