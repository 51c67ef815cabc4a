/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_pooling.h"
#include "mct_window.h"

#define MCT_POOL_CHANNELS 256

/* The outputs whose windows reach over an input. */
typedef struct {
    mct_span rows, columns;
} mct_readers;

static inline mct_readers mct_pool_readers(const mct_average_pool_2d_grad_input_s8_params *p,
                                           int32_t position) {
    const mct_window *win = &p->window;
    return (mct_readers){
        mct_window_readers(position / p->dx.w, win->kernel_h, win->dilation_h, win->pad_top,
                           win->stride_h, p->dy.h),
        mct_window_readers(position % p->dx.w, win->kernel_w, win->dilation_w, win->pad_left,
                           win->stride_w, p->dy.w),
    };
}

static inline int mct_readers_equal(const mct_readers *a, const mct_readers *b) {
    return a->rows.begin == b->rows.begin && a->rows.end == b->rows.end &&
           a->columns.begin == b->columns.begin && a->columns.end == b->columns.end;
}

/* The sums of `channels` channels at an input. */
static void mct_pool_shares(const mct_average_pool_2d_grad_input_s8_params *p, int32_t position,
                            const mct_readers *of, const int8_t *dy, int32_t channels,
                            int32_t *sums) {
    const mct_window *win = &p->window;
    memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int32_t row = of->rows.begin; row < of->rows.end; row++) {
        for (int32_t column = of->columns.begin; column < of->columns.end; column++) {
            const mct_window_part part = mct_window_inside(win, &p->dx, row, column);
            if (!mct_window_has_tap(win, &part, position / p->dx.w, position % p->dx.w)) {
                continue;
            }
            const int32_t share = p->common / mct_window_count(&part);
            const int8_t *from = dy + (row * p->dy.w + column) * p->dy.c;
            for (int32_t c = 0; c < channels; c++) {
                sums[c] += from[c] * share;
            }
        }
    }
}

/* Channels c … c + channels - 1 of all positions. Neighbours in the same windows get the same; in a
 * global pool all do. */
static void mct_pool_channels(const mct_average_pool_2d_grad_input_s8_params *p, const int8_t *dy,
                              int32_t c, int32_t channels, mct_gradients *result) {
    const int is_dilated = p->window.dilation_h > 1 || p->window.dilation_w > 1;
    const int32_t positions = p->dx.h * p->dx.w;
    int32_t sums[MCT_POOL_CHANNELS + MCT_LANES] = {0};
    mct_tile tile = {0, 1, c, channels, 0, sums}; /* of rows that are all the same */
    for (int32_t position = 0; position < positions; position += tile.rows) {
        const mct_readers readers = mct_pool_readers(p, position);
        mct_pool_shares(p, position, &readers, dy + c, channels, sums);
        tile.row = position;
        for (tile.rows = 1; !is_dilated && position + tile.rows < positions; tile.rows++) {
            const mct_readers next = mct_pool_readers(p, position + tile.rows);
            if (!mct_readers_equal(&readers, &next)) {
                break;
            }
        }
        mct_take_gradients(result, &tile);
    }
}

void mct_average_pool_2d_grad_input_s8(const mct_average_pool_2d_grad_input_s8_params *p,
                                       const mct_step *step, const int8_t *dy,
                                       const mct_exponent *dy_exponent, const uint8_t *mask,
                                       mct_exponent *exponent, int8_t *dx, int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    mct_gradients result = {&writer, p->dx.c, dx};
    for (int32_t c = 0; c < p->dx.c; c += MCT_POOL_CHANNELS) {
        mct_pool_channels(p, dy, c, mct_min(p->dx.c - c, MCT_POOL_CHANNELS), &result);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
