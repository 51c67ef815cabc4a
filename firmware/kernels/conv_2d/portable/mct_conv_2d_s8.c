/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_tiled_position.h"
#include "mct_tiled_requantize.h"
#include "mct_window.h"

/* A convolution, some output channels of which are in hand. */
typedef struct {
    const mct_conv_2d_s8_params *p;
    mct_shape of;          /* x; where a position reads nothing but its own pixel, all in one row */
    int32_t rows, columns; /* of y, likewise */
    mct_span inner;        /* the columns whose windows reach over neither side of x */
    int32_t tiles;         /* in these, where no tap is dilated */
    const int8_t *x;
    int32_t x_row; /* from one row of x to the next */
    int32_t depth; /* terms of a sum */
    mct_tiled_output out;
    int32_t c, channels; /* the first one in hand, and how many there are */
    const int8_t *w;
    int32_t w_step; /* 0: there is one only */
    int32_t bias[MCT_TILED_CHANNELS];
    mct_tiled_sums start; /* less what the zero point makes of all terms */
    mct_tiled_channel channel[MCT_TILED_CHANNELS];
    int is_short; /* whether mct_conv_store_short is right for all of them */
} mct_conv_job;

/* Two channels, from the n-th in hand on, at a position where the window may reach over the image's
 * border. */
static MCT_APART void mct_conv_two(const mct_conv_job *job, int32_t row, int32_t column,
                                   int32_t n) {
    const mct_conv_2d_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t ins = p->x.c, c = job->c + n, w_step = n + 1 < job->channels ? job->w_step : 0;
    const mct_window_part part = mct_window_inside(win, &job->of, row, column);
    /* neighbouring taps lie next to each other, unless they are dilated */
    const int32_t taps = win->dilation_w == 1 ? part.columns.end - part.columns.begin : 1;
    mct_tiled_two sums = {job->bias[n], w_step > 0 ? job->bias[n + 1] : 0};
    for (int32_t ky = part.rows.begin; ky < part.rows.end; ky++) {
        const int8_t *x = job->x + (part.first_y + ky * win->dilation_h) * job->x_row;
        const int8_t *w = job->w + n * job->w_step + ky * win->kernel_w * ins;
        for (int32_t kx = part.columns.begin; kx < part.columns.end; kx += taps) {
            sums = mct_tiled_add_one(x + (part.first_x + kx * win->dilation_w) * ins,
                                     p->x_zero_point, w + kx * ins, w_step, taps * ins, sums);
        }
    }
    const int32_t i = (row * job->columns + column) * p->y.c + c;
    mct_tiled_store(&job->out, &job->channel[n], c, sums.first, i);
    if (w_step > 0) {
        mct_tiled_store(&job->out, &job->channel[n + 1], c + 1, sums.second, i + 1);
    }
}

static void mct_conv_one(const mct_conv_job *job, int32_t row, int32_t column) {
    for (int32_t n = 0; n < job->channels; n += 2) {
        mct_conv_two(job, row, column, n);
    }
}

/* The elements of a tile: of the channels from c on at each of its positions, from element i on; `outs` to the
 * next position. channel: the first one's.
 * Apart from the loop that made the sums, so that both have all registers. */
static MCT_APART void mct_conv_store(const mct_tiled_output *out, const mct_tiled_channel *channel,
                                     int32_t c, int32_t channels, const mct_tiled_sums *sums,
                                     int32_t i, int32_t outs) {
    for (int32_t n = 0; n < channels; n++) {
        for (int32_t p = 0; p < MCT_TILED_POSITIONS; p++) {
            mct_tiled_store(out, &channel[n], c + n, sums[p].of[n], i + n + p * outs);
        }
    }
}

/* Whether mct_conv_store_short makes the same. */
static inline int mct_conv_is_short(const mct_tiled_output *out, const mct_tiled_channel *channel,
                                    int32_t channels) {
    int is_short = out->mask == NULL;
    for (int32_t n = 0; n < channels; n++) {
        is_short &= channel[n].bits != 0;
    }
    return is_short;
}

/* A tile's elements of channel n in hand, a constant. y: the first */
static MCT_ALWAYS_INLINE void mct_conv_put(const mct_conv_job *job, int32_t n,
                                           const mct_tiled_sums *sums, int8_t *y, int32_t outs) {
    const mct_tiled_channel one = job->channel[n];
    const int32_t low = job->out.low;
    const uint32_t span = job->out.span;
    *y = mct_tiled_short(&one, low, span, sums[0].of[n]);
    y += outs;
    *y = mct_tiled_short(&one, low, span, sums[1].of[n]);
    MCT_TILED_LATER(y += outs; *y = mct_tiled_short(&one, low, span, sums[2].of[n]); y += outs;
                    *y = mct_tiled_short(&one, low, span, sums[3].of[n]);)
}

static MCT_ALWAYS_INLINE void mct_conv_put_all(const mct_conv_job *job, int32_t channels,
                                               const mct_tiled_sums *sums, int32_t i,
                                               int32_t outs) {
    int8_t *y = job->out.y + i;
    mct_conv_put(job, 0, sums, y, outs);
    if (job->channels > 1) {
        mct_conv_put(job, 1, sums, y + 1, outs);
    }
    MCT_TILED_THIRD(if (channels > 2) { mct_conv_put(job, 2, sums, y + 2, outs); })
    (void)channels;
}

static MCT_APART void mct_conv_store_short(const mct_conv_job *job, const mct_tiled_sums *sums,
                                           int32_t i, int32_t outs) {
    mct_conv_put_all(job, MCT_TILED_CHANNELS, sums, i, outs);
}

/* made: in registers, since nobody gets their address. channels: a constant */
static MCT_ALWAYS_INLINE void mct_conv_finish(const mct_conv_job *job, int32_t channels,
                                              const mct_tiled_sums *made, int32_t i, int32_t outs) {
    if (job->is_short && MCT_TILED_CHANNELS == 3) { /* there they can stay */
        mct_conv_put_all(job, channels, made, i, outs);
        return;
    }
    mct_tiled_sums sums[MCT_TILED_POSITIONS];
    for (int32_t p = 0; p < MCT_TILED_POSITIONS; p++) {
        sums[p] = made[p];
    }
    if (job->is_short) {
        mct_conv_store_short(job, sums, i, outs);
    } else {
        mct_conv_store(&job->out, job->channel, job->c, job->channels, sums, i, outs);
    }
}

/* The positions begin … end - 1 of a row: whole tiles of windows that lie in the image. channels: a
 * constant, 2 instead of 1 */
static MCT_ALWAYS_INLINE void mct_conv_tiles(const mct_conv_job *job, int32_t row, int32_t begin,
                                             int32_t end, int32_t channels) {
    const mct_window *win = &job->p->window;
    const int32_t ins = job->p->x.c, outs = job->p->y.c, kernel_h = win->kernel_h;
    const int32_t terms = win->kernel_w * ins, step = win->stride_w * ins;
    const int32_t line = win->dilation_h * job->x_row;
    const int8_t *x = job->x + (row * win->stride_h - win->pad_top) * job->x_row +
                      (begin * win->stride_w - win->pad_left) * ins;
    int32_t i = (row * job->columns + begin) * outs + job->c;
    for (; begin < end; begin += MCT_TILED_POSITIONS) {
        const int8_t *taps = x, *w = job->w;
        mct_tiled_sums made[MCT_TILED_POSITIONS];
        for (int32_t p = 0; p < MCT_TILED_POSITIONS; p++) {
            made[p] = job->start;
        }
        for (int32_t ky = 0; ky < kernel_h; ky++, taps += line, w += terms) {
            mct_tiled_add(taps, step, w, job->w_step, terms, channels, made);
        }
        mct_conv_finish(job, channels, made, i, outs);
        x += MCT_TILED_POSITIONS * step;
        i += MCT_TILED_POSITIONS * outs;
    }
}

static MCT_APART void mct_conv_tiles_of_two(const mct_conv_job *job, int32_t row, int32_t begin,
                                            int32_t end) {
    mct_conv_tiles(job, row, begin, end, 2);
}

#if MCT_TILED_CHANNELS == 3
static MCT_APART void mct_conv_tiles_of_three(const mct_conv_job *job, int32_t row, int32_t begin,
                                              int32_t end) {
    mct_conv_tiles(job, row, begin, end, 3);
}
#endif

static void mct_conv_row(const mct_conv_job *job, int32_t row, int32_t begin, int32_t end) {
    MCT_TILED_THIRD(if (job->channels == 3) {
        mct_conv_tiles_of_three(job, row, begin, end);
        return;
    })
    mct_conv_tiles_of_two(job, row, begin, end);
}

static void mct_conv_channels(const mct_conv_job *job) {
    const mct_window *win = &job->p->window;
    for (int32_t row = 0; row < job->rows; row++) {
        const int32_t y = row * win->stride_h - win->pad_top;
        const int whole = y >= 0 && y + (win->kernel_h - 1) * win->dilation_h < job->of.h;
        const int32_t tiles = whole ? job->tiles : 0;
        const int32_t begin = tiles > 0 ? job->inner.begin : 0;
        const int32_t end = begin + tiles * MCT_TILED_POSITIONS;
        for (int32_t column = 0; column < begin; column++) {
            mct_conv_one(job, row, column);
        }
        mct_conv_row(job, row, begin, end);
        for (int32_t column = end; column < job->columns; column++) {
            mct_conv_one(job, row, column);
        }
    }
}

/* The rows of a weight that is trained in part, put together. */
static MCT_APART const int8_t *mct_conv_merged(const mct_conv_job *job, const int8_t *w,
                                               const int8_t *trained, int8_t *scratch) {
    const mct_trained_columns *t = &job->p->trained;
    const int32_t ins = job->p->x.c, size = job->channels * job->depth;
    for (int32_t i = 0; i < size; i++) {
        scratch[i] = w[job->c * job->depth + i];
    }
    const int8_t *from = trained + job->c * (job->depth / ins) * t->columns;
    for (int8_t *to = scratch; to < scratch + size; to += ins) {
        for (int32_t j = 0; j < t->columns; j++) {
            to[t->channels == NULL ? j : t->channels[j]] = *from++;
        }
    }
    return scratch;
}

static int32_t mct_conv_sum(const int8_t *w, int32_t terms) {
    int32_t sum = 0;
    for (; terms >= 4; terms -= 4, w += 4) {
        sum += w[0] + w[1] + (w[2] + w[3]);
    }
    for (; terms > 0; terms--) {
        sum += *w++;
    }
    return sum;
}

static MCT_APART void mct_conv_take(mct_conv_job *job, const int32_t *b) {
    for (int32_t n = 0; n < MCT_TILED_CHANNELS; n++) {
        const int32_t at = mct_min(n, job->channels - 1), c = job->c + at;
        const int32_t sum =
            job->tiles > 0 ? mct_conv_sum(job->w + at * job->w_step, job->depth) : 0;
        job->bias[n] = b[c];
        job->start.of[n] = b[c] - job->p->x_zero_point * sum;
        job->channel[n] = mct_tiled_channel_of(job->out.q, b[c], c, job->depth);
    }
    job->is_short = mct_conv_is_short(&job->out, job->channel, job->channels);
}

/* A fully connected layer: the only position's channels, several at a time. */
static void mct_conv_only(const mct_conv_job *job, const int8_t *w, const int32_t *b) {
    const int32_t outs = job->p->y.c;
    const mct_tiled_runs runs = {1, job->depth, job->x, 0, 0, 0, job->p->x_zero_point};
    int32_t sums[MCT_TILED_ROWS];
    for (int32_t c = 0; c < outs; c += MCT_TILED_ROWS, w += MCT_TILED_ROWS * job->depth) {
        const int32_t rows = mct_min(outs - c, MCT_TILED_ROWS);
        for (int32_t n = 0; n < rows; n++) {
            sums[n] = b[c + n];
        }
        mct_tiled_add_runs(&runs, w, job->depth, rows, sums);
        for (int32_t n = 0; n < rows; n++) {
            mct_tiled_put(&job->out, mct_tiled_scale_plain(job->out.q, sums[n], c + n), c + n);
        }
    }
}

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    const mct_window *win = &p->window;
    const int32_t depth = win->kernel_h * win->kernel_w * p->x.c;
    mct_conv_job job = {
        .p = p,
        .of = p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .x = x,
        .depth = depth,
        .out = mct_tiled_output_of(&p->requantize, p->y.h * p->y.w * p->y.c, y, mask),
    };
    if (win->kernel_h * win->kernel_w == 1 && win->stride_h == 1 && win->stride_w == 1 &&
        win->pad_top == 0 && win->pad_left == 0 && p->x.h == p->y.h && p->x.w == p->y.w) {
        job.of.w = job.columns = p->y.h * p->y.w;
        job.of.h = job.rows = 1;
        if (job.columns == 1 && trained == NULL) {
            mct_conv_only(&job, w, b);
            return;
        }
    }
    job.x_row = job.of.w * p->x.c;
    job.inner = mct_tiled_inner(win, job.of.w, job.columns);
    if (win->dilation_w == 1 && job.inner.begin < job.inner.end) {
        job.tiles = (job.inner.end - job.inner.begin) / MCT_TILED_POSITIONS;
    }
    for (job.c = 0; job.c < p->y.c; job.c += job.channels) {
        /* scratch has room for two rows */
        job.channels =
            trained == NULL ? mct_tiled_channels(p->y.c - job.c) : mct_min(p->y.c - job.c, 2);
        job.w = trained == NULL ? w + job.c * depth : mct_conv_merged(&job, w, trained, scratch);
        job.w_step = job.channels > 1 ? depth : 0;
        mct_conv_take(&job, b);
        mct_conv_channels(&job);
    }
}
