/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_pooling.h"
#include "mct_window.h"

#define MCT_POOL_CHANNELS 256
#define MCT_MAX_POOL_PRODUCTS 64 /* that take as long as an element */

typedef struct {
    const mct_max_pool_2d_grad_input_s8_params *p;
    const mct_gradients *result;
    const int8_t *dy, *x;
} mct_max_job;

/* An input, and a window that has a tap there. */
typedef struct {
    const mct_max_job *job;
    const mct_window_part *part;
    int32_t y, x;
} mct_max_tap;

__attribute__((always_inline)) static inline mct_twice_v8 mct_bytes(const int8_t *from,
                                                                    int32_t count) {
    mct_twice_v8 v = {0};
    memcpy(&v, from, (size_t)count);
    return v;
}

/* How many of the taps of a row of the window lie before the tap, row by row. */
static inline int32_t mct_taps_before(const mct_max_tap *tap, int32_t y) {
    const mct_span *columns = &tap->part->columns;
    if (y == tap->y) {
        return (tap->x - tap->part->first_x) / tap->job->p->window.dilation_w;
    }
    return y < tap->y ? columns->end : columns->begin;
}

/* -1 for those of `count` channels whose element at the tap is the first largest of the window. */
__attribute__((always_inline)) static inline mct_twice_v8
mct_first_largest(const mct_max_tap *tap, const int8_t *x, int32_t count) {
    const mct_max_pool_2d_grad_input_s8_params *p = tap->job->p;
    const mct_window_part *part = tap->part;
    const int32_t step = p->window.dilation_w * p->dx.c;
    const mct_twice_v8 value = mct_bytes(x + (tap->y * p->dx.w + tap->x) * p->dx.c, count);
    mct_twice_v8 beaten = {0};
    for (int32_t row = part->rows.begin; row < part->rows.end; row++) {
        const int32_t y = part->first_y + row * p->window.dilation_h;
        const int32_t middle = mct_taps_before(tap, y);
        const int8_t *line = x + (y * p->dx.w + part->first_x) * p->dx.c;
        for (int32_t i = part->columns.begin; i < middle; i++) {
            beaten |= mct_bytes(line + i * step, count) >= value;
        }
        for (int32_t i = middle; i < part->columns.end; i++) {
            beaten |= mct_bytes(line + i * step, count) > value;
        }
    }
    return ~beaten;
}

/* Adds dy of those channels to the sums of 2 * MCT_LANES. */
__attribute__((always_inline)) static inline void
mct_add_where_first(const mct_max_tap *tap, const int8_t *x, const int8_t *dy, int32_t count,
                    int32_t *sums) {
    const mct_twice_v8 given = mct_bytes(dy, count) & mct_first_largest(tap, x, count);
    int8_t kept[2 * MCT_LANES];
    memcpy(kept, &given, sizeof kept);
    for (int32_t i = 0; i < 2 * MCT_LANES; i += MCT_LANES) {
        mct_v_store(sums + i, mct_v_load(sums + i) + mct_v_load_s8(kept + i, MCT_LANES));
    }
}

static void mct_max_window_sums(const mct_max_tap *tap, const int8_t *x, const int8_t *dy,
                                int32_t channels, int32_t *sums) {
    int32_t c = 0;
    for (; c + 2 * MCT_LANES <= channels; c += 2 * MCT_LANES) { /* loads of one instruction */
        mct_add_where_first(tap, x + c, dy + c, 2 * MCT_LANES, sums + c);
    }
    if (c < channels) {
        mct_add_where_first(tap, x + c, dy + c, channels - c, sums + c);
    }
}

/* The sums of `channels` channels from c on at a position. */
static void mct_max_position_sums(const mct_max_job *job, int32_t position, int32_t c,
                                  int32_t channels, int32_t *sums) {
    const mct_max_pool_2d_grad_input_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t iy = position / p->dx.w, ix = position % p->dx.w;
    const mct_span rows = mct_window_readers(iy, win->kernel_h, win->dilation_h, win->pad_top,
                                             win->stride_h, p->dy.h);
    const mct_span columns = mct_window_readers(ix, win->kernel_w, win->dilation_w, win->pad_left,
                                                win->stride_w, p->dy.w);
    memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int32_t row = rows.begin; row < rows.end; row++) {
        for (int32_t column = columns.begin; column < columns.end; column++) {
            const mct_window_part part = mct_window_inside(win, &p->dx, row, column);
            if (mct_window_has_tap(win, &part, iy, ix)) {
                const mct_max_tap tap = {job, &part, iy, ix};
                const int8_t *from = job->dy + (row * p->dy.w + column) * p->dy.c + c;
                mct_max_window_sums(&tap, job->x + c, from, channels, sums);
            }
        }
    }
}

static void mct_max_pool_part(const void *job_, int32_t part, int32_t parts) {
    const mct_max_job *job = job_;
    const int32_t all = job->p->dx.c, positions = job->p->dx.h * job->p->dx.w;
    const int32_t end = mct_part_begin(positions, part + 1, parts, 1);
    int32_t sums[MCT_POOL_CHANNELS + 2 * MCT_LANES] = {0};
    for (int32_t i = mct_part_begin(positions, part, parts, 1); i < end; i++) {
        for (int32_t c = 0; c < all; c += MCT_POOL_CHANNELS) {
            const int32_t channels = mct_min(all - c, MCT_POOL_CHANNELS);
            mct_max_position_sums(job, i, c, channels, sums);
            mct_take_run(job->result, i, c, channels, sums);
        }
    }
}

void mct_max_pool_2d_grad_input_s8(const mct_max_pool_2d_grad_input_s8_params *p,
                                   const mct_step *step, const int8_t *dy,
                                   const mct_exponent *dy_exponent, const int8_t *x,
                                   const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                   int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const mct_gradients result = {&writer, p->dx.c, dx};
    const mct_max_job job = {p, &result, dy, x};
    const int64_t elements = (int64_t)p->dx.h * p->dx.w * p->dx.c;
    mct_threads_run(mct_max_pool_part, &job, mct_threads_for(elements * MCT_MAX_POOL_PRODUCTS));
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
