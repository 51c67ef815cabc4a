/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_tiled_gradient.h"
#include "mct_window.h"

/* The gradient of a convolution's input, of which some neighbouring channels are in hand. */
typedef struct {
    const mct_conv_2d_grad_input_s8_params *p;
    const int8_t *dy;
    mct_tiled_writer to;
    uint32_t seen;
    int32_t c, channels;
    const int8_t *w; /* of the first one in hand */
    int32_t w_row;   /* from one row of weights to the next, of which each output has one per tap */
    mct_tiled_factor factor[MCT_TILED_CHANNELS];
} mct_grad_job;

/* Element i and the next ones, of `count` channels from the n-th in hand on. */
static MCT_APART void mct_grad_write(mct_grad_job *job, const int32_t *sums, int32_t n,
                                     int32_t count, int32_t i) {
    for (int32_t end = n + count; n < end; n++, i++, sums++) {
        mct_tiled_round(&job->to, &job->factor[n], job->c + n, *sums, i, &job->seen);
    }
}

/* Two channels, from the n-th in hand on, of the pixel (iy, ix), by the windows that read it. */
static MCT_APART void mct_grad_two(mct_grad_job *job, int32_t iy, int32_t ix, int32_t n) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t outs = p->dy.c, taps = win->kernel_h * win->kernel_w;
    const int32_t count = mct_min(job->channels - n, 2);
    const mct_span rows = mct_window_readers(iy, win->kernel_h, win->dilation_h, win->pad_top,
                                             win->stride_h, p->dy.h);
    const mct_span columns = mct_window_readers(ix, win->kernel_w, win->dilation_w, win->pad_left,
                                                win->stride_w, p->dy.w);
    mct_tiled_two sums = {0, 0};
    for (int32_t row = rows.begin; row < rows.end; row++) {
        const int32_t ky = mct_tiled_tap(iy + win->pad_top - row * win->stride_h, win->dilation_h);
        for (int32_t column = columns.begin; ky >= 0 && column < columns.end; column++) {
            const int32_t kx =
                mct_tiled_tap(ix + win->pad_left - column * win->stride_w, win->dilation_w);
            if (kx >= 0) {
                const int8_t *w = job->w + n + (ky * win->kernel_w + kx) * job->w_row;
                const int8_t *dy = job->dy + (row * p->dy.w + column) * outs;
                sums = mct_tiled_add_one_rows(dy, w, taps * job->w_row, count - 1, outs, sums);
            }
        }
    }
    const int32_t both[2] = {sums.first, sums.second};
    mct_grad_write(job, both, n, count, (iy * p->dx.w + ix) * p->dx.c + job->c + n);
}

static void mct_grad_one(mct_grad_job *job, int32_t iy, int32_t ix) {
    for (int32_t n = 0; n < job->channels; n += 2) {
        mct_grad_two(job, iy, ix, n);
    }
}

/* Whole tiles of the first `end` pixels, each of which is read by the window at its own position.
 * channels: all in hand, a constant */
static MCT_ALWAYS_INLINE void mct_grad_tiles(mct_grad_job *job, int32_t end, int32_t channels) {
    const int32_t outs = job->p->dy.c, ins = job->p->dx.c, w_row = job->w_row;
    const int8_t *dy = job->dy;
    int32_t i = job->c;
    for (int32_t position = 0; position < end; position += MCT_TILED_POSITIONS) {
        mct_tiled_sums sums[MCT_TILED_POSITIONS] = {{{0}}};
        mct_tiled_add_rows(dy, outs, job->w, w_row, outs, channels, sums);
        for (int32_t p = 0; p < MCT_TILED_POSITIONS; p++, i += ins) {
            mct_grad_write(job, sums[p].of, 0, channels, i);
        }
        dy += MCT_TILED_POSITIONS * outs;
    }
}

static MCT_APART void mct_grad_tiles_of_two(mct_grad_job *job, int32_t end) {
    mct_grad_tiles(job, end, 2);
}

#if MCT_TILED_CHANNELS == 3
static MCT_APART void mct_grad_tiles_of_three(mct_grad_job *job, int32_t end) {
    mct_grad_tiles(job, end, 3);
}
#endif

/* How many of the first `positions` pixels it has written. */
static int32_t mct_grad_whole_tiles(mct_grad_job *job, int32_t positions) {
    const int32_t end = positions - positions % MCT_TILED_POSITIONS;
    MCT_TILED_THIRD(if (job->channels == 3) {
        mct_grad_tiles_of_three(job, end);
        return end;
    })
    if (job->channels < 2) {
        return 0;
    }
    mct_grad_tiles_of_two(job, end);
    return end;
}

/* How many channels are next: two at most where trained weights lie between others, because scratch has
 * room for two. */
static int32_t mct_grad_count(const mct_grad_job *job, const int8_t *trained) {
    const mct_trained_columns *t = &job->p->trained;
    const int32_t left = job->p->dx.c - job->c;
    const int is_cut = trained != NULL && t->channels == NULL && job->c < t->columns;
    if (trained != NULL && (t->channels != NULL || (is_cut && job->c + 1 == t->columns))) {
        return mct_min(left, 2);
    }
    return mct_tiled_channels(is_cut ? t->columns - job->c : left);
}

/* Takes the weights of the channels in hand. Those of one that is trained in part are put together in
 * scratch, two by two, unless both are trained or none. */
static MCT_APART void mct_grad_take(mct_grad_job *job, const int8_t *w, const int8_t *trained,
                                    int8_t *scratch) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const mct_trained_columns *t = &p->trained;
    const int32_t rows = p->dy.c * p->window.kernel_h * p->window.kernel_w;
    const int32_t c = job->c, end = c + job->channels;
    job->w = w + c;
    job->w_row = p->dx.c;
    if (trained == NULL || (t->channels == NULL && c >= t->columns)) {
        return;
    }
    if (t->channels == NULL && end <= t->columns) {
        job->w = trained + c;
        job->w_row = t->columns;
        return;
    }
    for (int32_t row = 0; row < rows; row++) {
        scratch[2 * row] = job->w[row * job->w_row];
        scratch[2 * row + job->channels - 1] = job->w[row * job->w_row + job->channels - 1];
    }
    for (int32_t j = 0; j < t->columns; j++) {
        const int32_t channel = t->channels == NULL ? j : t->channels[j];
        for (int32_t row = 0; channel >= c && channel < end && row < rows; row++) {
            scratch[2 * row + channel - c] = trained[row * t->columns + j];
        }
    }
    job->w = scratch;
    job->w_row = 2;
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
    mct_grad_job job = {.p = p, .dy = dy, .to = mct_tiled_writer_of(&writer, dx)};
    const int32_t positions = p->dx.h * p->dx.w;
    const int is_point = win->kernel_h * win->kernel_w == 1 && win->stride_h == 1 &&
                         win->stride_w == 1 && win->pad_top == 0 && win->pad_left == 0 &&
                         p->dx.h == p->dy.h && p->dx.w == p->dy.w;
    for (job.c = 0; job.c < p->dx.c; job.c += job.channels) {
        job.channels = mct_grad_count(&job, trained);
        for (int32_t n = 0; n < job.channels; n++) {
            job.factor[n] = mct_tiled_factor_of(&writer, job.c + n);
        }
        mct_grad_take(&job, w, trained, (int8_t *)scratch);
        int32_t position = is_point ? mct_grad_whole_tiles(&job, positions) : 0;
        for (; position < positions; position++) {
            mct_grad_one(&job, position / p->dx.w, position % p->dx.w);
        }
    }
    writer.seen |= job.seen;
    mct_gradient_end(&writer, 7);
}
