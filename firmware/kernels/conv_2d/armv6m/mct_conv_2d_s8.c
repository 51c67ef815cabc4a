/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m.h"
#include "mct_armv6m_scale.h"
#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_window.h"

#define MCT_MOST_CHANNELS 32

/* A convolution, some output channels of which are in hand. */
typedef struct {
    const mct_conv_2d_s8_params *p;
    const int8_t *x, *w, *trained;
    int8_t *scratch;
    mct_tiled_output out;
    int32_t depth, quads; /* terms of a sum */
    int is_point;         /* whether a position reads nothing but its own pixel */
    int32_t c, channels;
    int is_exact;          /* whether mct_armv6m_dots is, with the weights in hand */
    const uint32_t *w_end; /* of the weights in the panel */
    int32_t sums[MCT_MOST_CHANNELS];
    mct_armv6m_scale scale[MCT_MOST_CHANNELS];
    uint32_t panel[MCT_ARMV6M_WORDS]; /* the values of a position, and weights */
} mct_conv_job;

/* Room for as many bytes as the values in the panel are, where packing them may begin. */
static int8_t *mct_conv_bytes(mct_conv_job *job, int32_t quads) {
    return (int8_t *)(job->panel + quads);
}

/* The rows of a weight that is trained in part, put together: those of channel c and the next one. */
static MCT_APART const int8_t *mct_conv_merged(const mct_conv_job *job, int32_t c, int32_t rows) {
    const mct_trained_columns *t = &job->p->trained;
    const int32_t ins = job->p->x.c, size = rows * job->depth;
    for (int32_t i = 0; i < size; i++) {
        job->scratch[i] = job->w[c * job->depth + i];
    }
    const int8_t *from = job->trained + c * (job->depth / ins) * t->columns;
    for (int8_t *to = job->scratch; to < job->scratch + size; to += ins) {
        for (int32_t j = 0; j < t->columns; j++) {
            to[t->channels == NULL ? j : t->channels[j]] = *from++;
        }
    }
    return job->scratch;
}

/* Terms `first` … of the weights of two channels, the second of which may be none. Their sums. */
static void mct_conv_pack(mct_conv_job *job, const int8_t *w, int32_t channels, int32_t count,
                          uint32_t *to, int32_t *sums) {
    const int32_t quads = (count + 3) / 4;
    for (int32_t i = 0; i < 2; i++, to += 2) {
        if (i < channels) {
            int8_t *bytes = mct_conv_bytes(job, quads);
            const int8_t *row = mct_armv6m_aligned(w + i * job->depth, count, bytes);
            const mct_armv6m_packed packed = mct_armv6m_pack_weights(row, quads, to);
            sums[i] = packed.sum;
            job->is_exact &= packed.is_exact;
            continue;
        }
        for (int32_t q = 0; q < quads; q++) {
            to[4 * q] = to[4 * q + 1] = 0;
        }
        sums[i] = 0;
    }
}

static const int8_t *mct_conv_rows(const mct_conv_job *job, int32_t c, int32_t rows) {
    return job->trained == NULL ? job->w + c * job->depth : mct_conv_merged(job, c, rows);
}

/* Takes channels from c on: their constants, and what of their weights the panel has room for. */
static MCT_APART void mct_conv_take(mct_conv_job *job, const int32_t *b) {
    const int32_t outs = job->p->y.c, size = 2 + 4 * job->quads;
    uint32_t *to = job->panel + 2 * job->quads;
    job->channels = 0;
    job->is_exact = 1;
    while (job->channels < MCT_MOST_CHANNELS && job->c + job->channels < outs &&
           to + size <= job->panel + MCT_ARMV6M_WORDS) {
        const int32_t c = job->c + job->channels, now = mct_min(outs - c, 2);
        int32_t sums[2];
        mct_conv_pack(job, mct_conv_rows(job, c, now), now, job->depth, to + 2, sums);
        for (int32_t i = 0; i < 2; i++) {
            const int32_t at = c + mct_min(i, now - 1);
            mct_armv6m_scale *scale = &job->scale[job->channels + i];
            *scale = mct_armv6m_scale_of(job->out.q, b[at], at, job->depth);
            to[i] = mct_armv6m_begin(scale, b[at]) - (uint32_t)(job->p->x_zero_point * sums[i]);
        }
        job->channels += now;
        to += size;
    }
    job->w_end = to;
}

/* The pixels that a position's window reads, as bytes; outside the image there is the zero point. */
static MCT_APART void mct_conv_gather(const mct_conv_job *job, int32_t row, int32_t column,
                                      int8_t *to) {
    const mct_conv_2d_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t ins = p->x.c, line = win->kernel_w * ins;
    const int32_t x0 = column * win->stride_w - win->pad_left;
    const int is_whole = win->dilation_w == 1 && x0 >= 0 && x0 + win->kernel_w <= p->x.w;
    int32_t iy = row * win->stride_h - win->pad_top;
    int8_t *end = to;
    for (int32_t ky = 0; ky < win->kernel_h; ky++, iy += win->dilation_h) {
        const int is_row = iy >= 0 && iy < p->x.h;
        const int8_t *from = job->x + (iy * p->x.w + x0) * ins;
        if (is_row && is_whole) {
            for (end += line; to < end;) {
                *to++ = *from++;
            }
            continue;
        }
        for (int32_t kx = 0, ix = x0; kx < win->kernel_w; kx++, ix += win->dilation_w) {
            const int8_t *pixel = from + kx * win->dilation_w * ins;
            const int is_inside = is_row && ix >= 0 && ix < p->x.w;
            for (end += ins; to < end;) {
                *to++ = is_inside ? *pixel++ : (int8_t)p->x_zero_point;
            }
        }
    }
    while ((end - (const int8_t *)(job->panel + job->quads)) % 4 != 0) {
        *end++ = 0;
    }
}

/* The sums at a position, of the channels in hand, as int8. */
static void mct_conv_position(mct_conv_job *job, int32_t row, int32_t column) {
    const mct_conv_2d_s8_params *p = job->p;
    const int32_t position = row * p->y.w + column, quads = job->quads;
    int8_t *bytes = mct_conv_bytes(job, quads);
    const int8_t *from = bytes;
    if (job->is_point) {
        from = mct_armv6m_aligned(job->x + position * job->depth, job->depth, bytes);
    } else {
        mct_conv_gather(job, row, column, bytes);
    }
    mct_armv6m_pack(from, quads, job->panel);
    const uint32_t *w = job->panel + 2 * quads;
    if (job->is_exact) {
        mct_armv6m_dots(job->panel, quads, w, job->sums, job->w_end);
    } else {
        mct_armv6m_dots_exact(job->panel, quads, w, job->sums, job->w_end);
    }
    const int32_t i = position * p->y.c + job->c;
    mct_armv6m_store_sums(&job->out, job->sums, job->channels, job->scale, job->c, 1, i, 1);
}

/* A position's sums of two channels, which have more terms than the panel has room for: part by part. */
static MCT_APART void mct_conv_long(mct_conv_job *job, int32_t row, int32_t column,
                                    const int8_t *rows, int32_t *sums) {
    const mct_conv_2d_s8_params *p = job->p;
    const int32_t ins = p->x.c, most = 4 * MCT_ARMV6M_QUADS;
    for (int32_t tap = 0; tap < job->depth / ins; tap++) {
        const int32_t at = mct_window_tap_2d(&p->window, &p->x, row, column, tap);
        for (int32_t k = 0; at >= 0 && k < ins; k += most) {
            const int32_t count = mct_min(ins - k, most), quads = (count + 3) / 4;
            uint32_t *w = job->panel + 2 * quads;
            int32_t of_weights[2];
            job->is_exact = 1;
            mct_conv_pack(job, rows + tap * ins + k, job->channels, count, w + 2, of_weights);
            const int8_t *x = job->x + at * ins + k;
            x = mct_armv6m_aligned(x, count, mct_conv_bytes(job, quads));
            mct_armv6m_pack(x, quads, job->panel);
            w[0] = (uint32_t)(sums[0] - p->x_zero_point * of_weights[0]);
            w[1] = (uint32_t)(sums[1] - p->x_zero_point * of_weights[1]);
            (job->is_exact ? mct_armv6m_dots : mct_armv6m_dots_exact)(job->panel, quads, w, sums,
                                                                      w + 2 + 4 * quads);
        }
    }
}

static MCT_APART void mct_conv_long_channels(mct_conv_job *job, const int32_t *b) {
    const mct_conv_2d_s8_params *p = job->p;
    for (job->c = 0; job->c < p->y.c; job->c += 2) {
        job->channels = mct_min(p->y.c - job->c, 2);
        const int8_t *rows = mct_conv_rows(job, job->c, job->channels);
        for (int32_t i = 0; i < job->channels; i++) {
            const int32_t c = job->c + i;
            job->scale[i] = mct_armv6m_scale_of(job->out.q, b[c], c, job->depth);
        }
        for (int32_t position = 0; position < p->y.h * p->y.w; position++) {
            int32_t sums[2] = {0, 0};
            mct_conv_long(job, position / p->y.w, position % p->y.w, rows, sums);
            for (int32_t i = 0; i < job->channels; i++) {
                sums[i] =
                    (int32_t)(mct_armv6m_begin(&job->scale[i], b[job->c + i]) + (uint32_t)sums[i]);
            }
            mct_armv6m_store_sums(&job->out, sums, job->channels, job->scale, job->c, 1,
                                  position * p->y.c + job->c, 1);
        }
    }
}

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    const mct_window *win = &p->window;
    const int32_t taps = win->kernel_h * win->kernel_w;
    mct_conv_job job;
    job.p = p;
    job.x = x;
    job.w = w;
    job.trained = trained;
    job.scratch = scratch;
    job.out = mct_armv6m_output_of(&p->requantize, p->y.h * p->y.w * p->y.c, y, mask);
    job.depth = taps * p->x.c;
    job.quads = (job.depth + 3) / 4;
    job.is_point = taps == 1 && win->stride_h == 1 && win->stride_w == 1 && win->pad_top == 0 &&
                   win->pad_left == 0 && p->x.h == p->y.h && p->x.w == p->y.w;
    if (job.quads > MCT_ARMV6M_QUADS) {
        mct_conv_long_channels(&job, b);
        return;
    }
    for (job.c = 0; job.c < p->y.c; job.c += job.channels) {
        mct_conv_take(&job, b);
        for (int32_t row = 0; row < p->y.h; row++) {
            for (int32_t column = 0; column < p->y.w; column++) {
                mct_conv_position(&job, row, column);
            }
        }
    }
}
