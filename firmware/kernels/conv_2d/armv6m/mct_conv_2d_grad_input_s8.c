/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m.h"
#include "mct_armv6m_gradient.h"
#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_window.h"

#define MCT_MOST_CHANNELS 32

/* The gradient of a convolution's input, of which some channels are in hand. A sum has, for each tap of
 * the window, the outputs in fours: those beyond the last are 0. */
typedef struct {
    const mct_conv_2d_grad_input_s8_params *p;
    const int8_t *dy, *w, *trained;
    int8_t *scratch;
    mct_gradient_writer *writer;
    int8_t *dx;
    int32_t taps, quads; /* of a tap */
    int is_point;        /* whether a pixel is read by the window at its own position alone */
    int32_t c, channels;
    int is_exact;          /* whether mct_armv6m_dots is, with the weights in hand */
    const uint32_t *w_end; /* of the weights in the panel */
    int32_t sums[MCT_MOST_CHANNELS];
    mct_armv6m_factor factor[MCT_MOST_CHANNELS];
    uint32_t panel[MCT_ARMV6M_WORDS]; /* the values that a pixel's sums take, and weights */
} mct_grad_job;

/* The weights of one or two channels from c on: `step` from one row to the next, of which each output
 * has one per tap. */
typedef struct {
    const int8_t *w;
    int32_t step, channels;
} mct_grad_weights;

/* Those of channels that are trained in part are put together in scratch, unless both are trained or
 * none. */
static MCT_APART mct_grad_weights mct_grad_weights_of(const mct_grad_job *job, int32_t c) {
    const mct_trained_columns *t = &job->p->trained;
    const int32_t ins = job->p->dx.c, channels = mct_min(ins - c, 2), end = c + channels;
    if (job->trained == NULL || (t->channels == NULL && c >= t->columns)) {
        return (mct_grad_weights){job->w + c, ins, channels};
    }
    if (t->channels == NULL && end <= t->columns) {
        return (mct_grad_weights){job->trained + c, t->columns, channels};
    }
    const int32_t rows = job->p->dy.c * job->taps;
    for (int32_t row = 0; row < rows; row++) {
        job->scratch[2 * row] = job->w[row * ins + c];
        job->scratch[2 * row + channels - 1] = job->w[row * ins + end - 1];
    }
    for (int32_t j = 0; j < t->columns; j++) {
        const int32_t channel = t->channels == NULL ? j : t->channels[j];
        for (int32_t row = 0; channel >= c && channel < end && row < rows; row++) {
            job->scratch[2 * row + channel - c] = job->trained[row * t->columns + j];
        }
    }
    return (mct_grad_weights){job->scratch, 2, channels};
}

/* Two of four weights that lie `step` apart, as mct_armv6m_pack_weights makes them. */
static inline uint32_t mct_grad_pair(int32_t first, int32_t third, int *is_exact) {
    if (first == -128 && third == -128) {
        *is_exact = 0;
    }
    return (uint32_t)third + ((uint32_t)first << 16);
}

/* Weights of a channel, of `count` outputs. to: four words for every four of them, of which two are the
 * channel's. */
static MCT_APART int mct_grad_pack(const int8_t *w, int32_t step, int32_t count, uint32_t *to) {
    int is_exact = 1;
    for (; count >= 4; count -= 4, to += 4) {
        const int32_t first = *w, second = w[step];
        w += 2 * step;
        to[0] = mct_grad_pair(first, *w, &is_exact);
        to[1] = mct_grad_pair(second, w[step], &is_exact);
        w += 2 * step;
    }
    if (count > 0) {
        const int32_t third = count > 2 ? w[2 * step] : 0;
        to[0] = mct_grad_pair(w[0], third, &is_exact);
        to[1] = count > 1 ? (uint32_t)(int32_t)w[step] << 16 : 0u;
    }
    return is_exact;
}

/* A tap's weights of two channels, the second of which may be none; from the output `first` on. */
static void mct_grad_pack_tap(mct_grad_job *job, const mct_grad_weights *of, int32_t tap,
                              int32_t first, int32_t count, uint32_t *to) {
    const int32_t step = job->taps * of->step;
    const int8_t *w = of->w + (first * job->taps + tap) * of->step;
    job->is_exact &= mct_grad_pack(w, step, count, to);
    if (of->channels > 1) {
        job->is_exact &= mct_grad_pack(w + 1, step, count, to + 2);
        return;
    }
    for (int32_t q = 0; q < (count + 3) / 4; q++) {
        to[4 * q + 2] = to[4 * q + 3] = 0;
    }
}

/* Values of dy at a position, or 0 if it is -1. */
static void mct_grad_values(mct_grad_job *job, int32_t position, int32_t first, int32_t count,
                            uint32_t *to) {
    const int32_t quads = (count + 3) / 4;
    if (position >= 0) {
        const int8_t *dy = job->dy + position * job->p->dy.c + first;
        mct_armv6m_pack(mct_armv6m_aligned(dy, count, (int8_t *)(to + quads)), quads, to);
        return;
    }
    for (int32_t q = 0; q < 2 * quads; q++) {
        to[q] = 0;
    }
}

static inline int32_t mct_grad_source(const mct_grad_job *job, int32_t pixel, int32_t tap) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    return mct_window_source_2d(&p->window, &p->dy, pixel / p->dx.w, pixel % p->dx.w, tap);
}

/* Takes channels from c on: what they are scaled by, and what of their weights the panel has room for. */
static MCT_APART void mct_grad_take(mct_grad_job *job) {
    const int32_t quads = job->taps * job->quads, size = 2 + 4 * quads;
    uint32_t *to = job->panel + 2 * quads;
    job->channels = 0;
    job->is_exact = 1;
    while (job->channels < MCT_MOST_CHANNELS && job->c + job->channels < job->p->dx.c &&
           to + size <= job->panel + MCT_ARMV6M_WORDS) {
        const int32_t c = job->c + job->channels;
        const mct_grad_weights of = mct_grad_weights_of(job, c);
        to[0] = to[1] = 0;
        for (int32_t tap = 0; tap < job->taps; tap++) {
            mct_grad_pack_tap(job, &of, tap, 0, job->p->dy.c, to + 2 + 4 * tap * job->quads);
        }
        for (int32_t n = 0; n < of.channels; n++) {
            job->factor[job->channels + n] = mct_armv6m_factor_of(job->writer, c + n);
        }
        job->channels += of.channels;
        to += size;
    }
    job->w_end = to;
}

static void mct_grad_write(mct_grad_job *job, int32_t pixel) {
    const int32_t i = pixel * job->p->dx.c + job->c;
    mct_armv6m_round_sums(job->writer, job->sums, job->channels, job->factor, job->c, 1, i, 1,
                          job->dx);
}

static void mct_grad_pixel(mct_grad_job *job, int32_t pixel) {
    const int32_t quads = job->taps * job->quads, outs = job->p->dy.c;
    if (job->is_point) {
        mct_grad_values(job, pixel, 0, outs, job->panel);
    }
    for (int32_t tap = 0; !job->is_point && tap < job->taps; tap++) {
        const int32_t from = mct_grad_source(job, pixel, tap);
        mct_grad_values(job, from, 0, outs, job->panel + 2 * tap * job->quads);
    }
    const uint32_t *w = job->panel + 2 * quads;
    if (job->is_exact) {
        mct_armv6m_dots(job->panel, quads, w, job->sums, job->w_end);
    } else {
        mct_armv6m_dots_exact(job->panel, quads, w, job->sums, job->w_end);
    }
    mct_grad_write(job, pixel);
}

/* A pixel's sums of two channels, which have more terms than the panel has room for: part by part. */
static MCT_APART void mct_grad_long(mct_grad_job *job, const mct_grad_weights *of, int32_t pixel) {
    const int32_t outs = job->p->dy.c, most = 4 * MCT_ARMV6M_QUADS;
    job->sums[0] = job->sums[1] = 0;
    for (int32_t tap = 0; tap < job->taps; tap++) {
        const int32_t from = mct_grad_source(job, pixel, tap);
        for (int32_t o = 0; from >= 0 && o < outs; o += most) {
            const int32_t count = mct_min(outs - o, most), quads = (count + 3) / 4;
            uint32_t *w = job->panel + 2 * quads;
            job->is_exact = 1;
            w[0] = (uint32_t)job->sums[0];
            w[1] = (uint32_t)job->sums[1];
            mct_grad_pack_tap(job, of, tap, o, count, w + 2);
            mct_grad_values(job, from, o, count, job->panel);
            (job->is_exact ? mct_armv6m_dots : mct_armv6m_dots_exact)(job->panel, quads, w,
                                                                      job->sums, w + 2 + 4 * quads);
        }
    }
    mct_grad_write(job, pixel);
}

static MCT_APART void mct_grad_long_channels(mct_grad_job *job) {
    const int32_t ins = job->p->dx.c;
    for (job->c = 0; job->c < ins; job->c += 2) {
        const mct_grad_weights of = mct_grad_weights_of(job, job->c);
        job->channels = of.channels;
        for (int32_t n = 0; n < of.channels; n++) {
            job->factor[n] = mct_armv6m_factor_of(job->writer, job->c + n);
        }
        for (int32_t pixel = 0; pixel < job->p->dx.h * job->p->dx.w; pixel++) {
            mct_grad_long(job, &of, pixel);
        }
    }
}

void mct_conv_2d_grad_input_s8(const mct_conv_2d_grad_input_s8_params *p, const mct_step *step,
                               const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *w,
                               const int8_t *addend, const mct_exponent *addend_exponent,
                               const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                               int32_t *scratch, const int8_t *trained) {
    const mct_window *win = &p->window;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_gradient_add(&writer, &p->addend, addend, addend_exponent);
    mct_grad_job job;
    job.p = p;
    job.dy = dy;
    job.w = w;
    job.trained = trained;
    job.scratch = (int8_t *)scratch;
    job.writer = &writer;
    job.dx = dx;
    job.taps = win->kernel_h * win->kernel_w;
    job.quads = (p->dy.c + 3) / 4;
    job.is_point = job.taps == 1 && win->stride_h == 1 && win->stride_w == 1 && win->pad_top == 0 &&
                   win->pad_left == 0 && p->dx.h == p->dy.h && p->dx.w == p->dy.w;
    if (job.taps * job.quads > MCT_ARMV6M_QUADS) {
        mct_grad_long_channels(&job);
    } else {
        for (job.c = 0; job.c < p->dx.c; job.c += job.channels) {
            mct_grad_take(&job);
            for (int32_t pixel = 0; pixel < p->dx.h * p->dx.w; pixel++) {
                mct_grad_pixel(&job, pixel);
            }
        }
    }
    mct_gradient_end(&writer, 7);
}
