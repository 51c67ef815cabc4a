/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products by tiles: a few positions times two or three channels, whose sums stay in registers,
 * so that a number is loaded once for several products.
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

/* Positions of a tile, 2 or 4, its channels at most, 2 or 3, and terms of its sums in one round of its
 * loop, 1, 4 or 8. */
#ifndef MCT_TILED_POSITIONS
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__) /* a product overwrites a factor */
#define MCT_TILED_POSITIONS 4
#define MCT_TILED_CHANNELS 2
#define MCT_TILED_TERMS 1
#elif (defined(__riscv) && !defined(__riscv_e)) || defined(__aarch64__) || defined(__mips__)
/* about 30 registers: 12 sums, 7 pointers and an end, 5 factors and a product */
#define MCT_TILED_POSITIONS 4
#define MCT_TILED_CHANNELS 3
#define MCT_TILED_TERMS 8
#else
#define MCT_TILED_POSITIONS 2
#define MCT_TILED_CHANNELS 2
#define MCT_TILED_TERMS 4
#endif
#endif

#if MCT_TILED_POSITIONS == 4
#define MCT_TILED_LATER(...) __VA_ARGS__ /* of the positions beyond the second */
#else
#define MCT_TILED_LATER(...)
#endif
#if MCT_TILED_CHANNELS == 3
#define MCT_TILED_THIRD(...) __VA_ARGS__ /* of the third channel */
#else
#define MCT_TILED_THIRD(...)
#endif

/* The sums of a tile's channels at one position. */
typedef struct {
    int32_t of[MCT_TILED_CHANNELS];
} mct_tiled_sums;

/* How many channels the next tile takes of those that are left: one only if it is the last. */
static inline int32_t mct_tiled_channels(int32_t left) {
    MCT_TILED_THIRD(if (left == 3 || left > 4) { return 3; })
    return left > 1 ? 2 : left;
}

/* Compilers load numbers ahead until they have no register left for the sums. So a position's sums are
 * to be there before they load more. */
#if defined(__GNUC__) && MCT_TILED_CHANNELS == 3
#define MCT_TILED_PIN(s)                                                                           \
    __asm__ volatile("" : "+r"(s.of[0]), "+r"(s.of[1]), "+r"(s.of[2]) : : "memory");
/* and pointers go on by themselves, not by what they have in common */
#define MCT_TILED_PASS(x) __asm__ volatile("" : "+r"(x));
#else
#define MCT_TILED_PIN(s)
#define MCT_TILED_PASS(x)
#endif

#define MCT_TILED_AT(p, n)                                                                         \
    {                                                                                              \
        const int32_t value = x##p[n];                                                             \
        s##p.of[0] += value * first;                                                               \
        s##p.of[1] += value * second;                                                              \
        MCT_TILED_THIRD(s##p.of[2] += value * third;)                                              \
        MCT_TILED_PIN(s##p)                                                                        \
    }
/* Term n of x's, by one weight of each channel. */
#define MCT_TILED_TERM(n, weight_0, weight_1, weight_2)                                            \
    {                                                                                              \
        const int32_t first = weight_0, second = weight_1;                                         \
        MCT_TILED_THIRD(const int32_t third = channels > 2 ? weight_2 : 0;)                        \
        MCT_TILED_AT(0, n)                                                                         \
        MCT_TILED_AT(1, n)                                                                         \
        MCT_TILED_LATER(MCT_TILED_AT(2, n) MCT_TILED_AT(3, n))                                     \
    }
#define MCT_TILED_STEP(n)                                                                          \
    x0 += n;                                                                                       \
    x1 += n;                                                                                       \
    MCT_TILED_PASS(x0)                                                                             \
    MCT_TILED_PASS(x1)                                                                             \
    MCT_TILED_LATER(x2 += n; x3 += n; MCT_TILED_PASS(x2) MCT_TILED_PASS(x3))
#define MCT_TILED_FOUR(n)                                                                          \
    MCT_TILED_TERM(n, w0[n], w1[n], w2[n])                                                         \
    MCT_TILED_TERM(n + 1, w0[n + 1], w1[n + 1], w2[n + 1])                                         \
    MCT_TILED_TERM(n + 2, w0[n + 2], w1[n + 2], w2[n + 2])                                         \
    MCT_TILED_TERM(n + 3, w0[n + 3], w1[n + 3], w2[n + 3])
#define MCT_TILED_STEP_WEIGHTS(n)                                                                  \
    w0 += n;                                                                                       \
    w1 += n;                                                                                       \
    MCT_TILED_PASS(w0)                                                                             \
    MCT_TILED_PASS(w1)                                                                             \
    MCT_TILED_THIRD(w2 += n; MCT_TILED_PASS(w2))
/* Terms n … n + 3, whose weights lie w_row apart. */
#define MCT_TILED_FOUR_ROWS(n)                                                                     \
    MCT_TILED_TERM(n, w[0], w[1], w[2])                                                            \
    w += w_row;                                                                                    \
    MCT_TILED_TERM(n + 1, w[0], w[1], w[2])                                                        \
    w += w_row;                                                                                    \
    MCT_TILED_TERM(n + 2, w[0], w[1], w[2])                                                        \
    w += w_row;                                                                                    \
    MCT_TILED_TERM(n + 3, w[0], w[1], w[2])                                                        \
    w += w_row;
#define MCT_TILED_BEGIN                                                                            \
    mct_tiled_sums s0 = sums[0], s1 = sums[1];                                                     \
    const int8_t *x0 = x, *x1 = x0 + x_step;                                                       \
    MCT_TILED_LATER(mct_tiled_sums s2 = sums[2]; mct_tiled_sums s3 = sums[3];                      \
                    const int8_t *x2 = x1 + x_step; const int8_t *x3 = x2 + x_step;)
#define MCT_TILED_END                                                                              \
    sums[0] = s0;                                                                                  \
    sums[1] = s1;                                                                                  \
    MCT_TILED_LATER(sums[2] = s2; sums[3] = s3;)

/* sums[p] of channel c gets the sum over k < terms of x[p * x_step + k] * w[c * w_step + k]. channels: a
 * constant; 2 instead of 1, with weights that are not used. */
static MCT_ALWAYS_INLINE void mct_tiled_add(const int8_t *x, int32_t x_step, const int8_t *w,
                                            int32_t w_step, int32_t terms, int32_t channels,
                                            mct_tiled_sums *sums) {
    MCT_TILED_BEGIN
    const int8_t *w0 = w, *w1 = w0 + w_step;
    MCT_TILED_THIRD(const int8_t *w2 = channels > 2 ? w1 + w_step : w1;)
    (void)channels;
#if MCT_TILED_TERMS == 8
    for (const int8_t *end = w + (terms & ~7); w0 != end;) {
        MCT_TILED_FOUR(0)
        MCT_TILED_FOUR(4)
        MCT_TILED_STEP(8)
        MCT_TILED_STEP_WEIGHTS(8)
    }
    if ((terms & 4) != 0) {
        MCT_TILED_FOUR(0)
        MCT_TILED_STEP(4)
        MCT_TILED_STEP_WEIGHTS(4)
    }
#elif MCT_TILED_TERMS == 4
    for (const int8_t *end = w + (terms & ~3); w0 != end;) {
        MCT_TILED_FOUR(0)
        MCT_TILED_STEP(4)
        MCT_TILED_STEP_WEIGHTS(4)
    }
#endif
    for (const int8_t *end = w + terms; w0 != end;) {
        MCT_TILED_TERM(0, *w0++, *w1++, *w2++)
        MCT_TILED_STEP(1)
    }
    MCT_TILED_END
}

/* The same with x[p * x_step + k] * w[k * w_row + c]: the channels' weights lie next to each other. */
static MCT_ALWAYS_INLINE void mct_tiled_add_rows(const int8_t *x, int32_t x_step, const int8_t *w,
                                                 int32_t w_row, int32_t terms, int32_t channels,
                                                 mct_tiled_sums *sums) {
    MCT_TILED_BEGIN(void) channels;
#if MCT_TILED_TERMS == 8
    for (const int8_t *end = x + (terms & ~7); x0 != end;) {
        MCT_TILED_FOUR_ROWS(0)
        MCT_TILED_FOUR_ROWS(4)
        MCT_TILED_STEP(8)
    }
    if ((terms & 4) != 0) {
        MCT_TILED_FOUR_ROWS(0)
        MCT_TILED_STEP(4)
    }
#elif MCT_TILED_TERMS == 4
    for (const int8_t *end = x + (terms & ~3); x0 != end;) {
        MCT_TILED_FOUR_ROWS(0)
        MCT_TILED_STEP(4)
    }
#endif
    for (const int8_t *end = x + terms; x0 != end; w += w_row) {
        MCT_TILED_TERM(0, w[0], w[1], w[2])
        MCT_TILED_STEP(1)
    }
    MCT_TILED_END
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
