#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_tiled_gradient.h"
#include "mct_window.h"

/* The gradient of a convolution's input, of which two neighbouring channels are in hand. */
typedef struct {
    const mct_conv_2d_grad_input_s8_params *p;
    const int8_t *dy;
    mct_tiled_writer to;
    uint32_t seen;
    int32_t c, channels; /* 1 or 2 */
    const int8_t *w;     /* of the first one in hand */
    int32_t w_row; /* from one row of weights to the next, of which each output has one per tap */
    mct_tiled_factor factor[2];
} mct_grad_job;

static MCT_APART void mct_grad_write(mct_grad_job *job, int32_t first, int32_t second, int32_t i) {
    mct_tiled_round(&job->to, &job->factor[0], job->c, first, i, &job->seen);
    if (job->channels > 1) {
        mct_tiled_round(&job->to, &job->factor[1], job->c + 1, second, i + 1, &job->seen);
    }
}

/* The pixel (iy, ix), by the windows that read it. */
static MCT_APART void mct_grad_one(mct_grad_job *job, int32_t iy, int32_t ix) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t outs = p->dy.c, taps = win->kernel_h * win->kernel_w;
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
                const int8_t *w = job->w + (ky * win->kernel_w + kx) * job->w_row;
                const int8_t *dy = job->dy + (row * p->dy.w + column) * outs;
                sums =
                    mct_tiled_add_one_rows(dy, w, taps * job->w_row, job->channels - 1, outs, sums);
            }
        }
    }
    mct_grad_write(job, sums.first, sums.second, (iy * p->dx.w + ix) * p->dx.c + job->c);
}

/* Whole tiles of the first `end` pixels, each of which is read by the window at its own position. */
static MCT_APART void mct_grad_tiles(mct_grad_job *job, int32_t end) {
    const int32_t outs = job->p->dy.c, ins = job->p->dx.c, w_row = job->w_row;
    const int8_t *dy = job->dy;
    int32_t i = job->c;
    for (int32_t position = 0; position < end; position += MCT_TILED_POSITIONS) {
        mct_tiled_sums s = {mct_tiled_line_from(0), mct_tiled_line_from(0)};
        s = mct_tiled_add_rows(dy, outs, job->w, w_row, outs, s);
        mct_grad_write(job, s.first.at0, s.second.at0, i);
        mct_grad_write(job, s.first.at1, s.second.at1, i + ins);
#if MCT_TILED_POSITIONS == 4
        mct_grad_write(job, s.first.at2, s.second.at2, i + 2 * ins);
        mct_grad_write(job, s.first.at3, s.second.at3, i + 3 * ins);
#endif
        dy += MCT_TILED_POSITIONS * outs;
        i += MCT_TILED_POSITIONS * ins;
    }
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
    const int32_t tiled = is_point ? positions - positions % MCT_TILED_POSITIONS : 0;
    for (job.c = 0; job.c < p->dx.c; job.c += 2) {
        job.channels = mct_min(p->dx.c - job.c, 2);
        job.factor[0] = mct_tiled_factor_of(&writer, job.c);
        job.factor[1] = mct_tiled_factor_of(&writer, job.c + job.channels - 1);
        mct_grad_take(&job, w, trained, (int8_t *)scratch);
        const int32_t end = job.channels > 1 ? tiled : 0;
        mct_grad_tiles(&job, end);
        for (int32_t position = end; position < positions; position++) {
            mct_grad_one(&job, position / p->dx.w, position % p->dx.w);
        }
    }
    writer.seen |= job.seen;
    mct_gradient_end(&writer, 7);
}
