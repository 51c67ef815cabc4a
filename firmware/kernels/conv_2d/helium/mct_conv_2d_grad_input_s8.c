/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_helium_gradient.h"
#include "mct_window.h"

/* Output channels whose weights are turned at a time; positions whose sums wait for the next ones. */
#define MCT_TURNED 256
#define MCT_WAITING 64

typedef struct {
    const mct_conv_2d_grad_input_s8_params *p;
    const int8_t *dy;
    const int8_t *w; /* of the columns in hand, in rows of w_row */
    int32_t w_row;
    int32_t point;                    /* 1: the pixel i of dx gets what the pixel i of dy gives */
    int32_t held_c, held_tap, held_o; /* what is in `turned`; -1: nothing */
    int8_t turned[4][MCT_TURNED];     /* the weights of a column, by output channel */
    int32_t waiting[MCT_WAITING][4];
} mct_grad_job;

/* `count` bytes, every step-th. */
static inline void mct_turn_column(int8_t *to, const int8_t *from, int32_t step, int32_t count) {
    if (step > 65535 / 7) {
        for (int32_t i = 0; i < count; i++) {
            to[i] = from[i * step];
        }
        return;
    }
    const mct_helium_block block = {
        .to = to,
        .to_column = 1,
        .from = from,
        .from_column = step,
        .rows = 1,
        .columns = count,
    };
    mct_helium_strew(&block);
}

/* Columns c … of a tap and of the output channels o … o + depth - 1; of a column that is missing, the
 * last. */
static void mct_turn(mct_grad_job *job, int32_t c, int32_t columns, int32_t tap, int32_t o,
                     int32_t depth) {
    const int32_t taps = job->p->window.kernel_h * job->p->window.kernel_w;
    if (job->held_c == c && job->held_tap == tap && job->held_o == o) {
        return;
    }
    job->held_c = c;
    job->held_tap = tap;
    job->held_o = o;
    const int8_t *from = job->w + (o * taps + tap) * job->w_row;
    for (int32_t l = 0; l < 4; l++) {
        mct_turn_column(job->turned[l], from + mct_min(l, columns - 1), taps * job->w_row, depth);
    }
}

/* What the weights in hand add at `count` positions; the first ones come in the place of what was there. */
static void mct_add_turned(mct_grad_job *job, int32_t tap, int32_t o, int32_t depth,
                           int32_t position, int32_t count) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    mct_helium_rows rows = {.w0 = job->turned[0],
                            .w1 = job->turned[1],
                            .w2 = job->turned[2],
                            .w3 = job->turned[3],
                            .depth = depth};
    const int begins = tap == 0 && o == 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t *sums = job->waiting[i];
        const int32_t at = position + i;
        int32_t from = at;
        if (!job->point) {
            from = mct_window_source_2d(&p->window, &p->dy, at / p->dx.w, at % p->dx.w, tap);
        }
        if (!begins) {
            rows.sum0 = sums[0];
            rows.sum1 = sums[1];
            rows.sum2 = sums[2];
            rows.sum3 = sums[3];
        }
        if (from >= 0) {
            vstrwq_s32(sums, mct_helium_dot4(&rows, job->dy + from * p->dy.c + o));
        } else if (begins) {
            vstrwq_s32(sums, vdupq_n_s32(0));
        }
    }
}

/* Takes the columns c … c + columns - 1 of the weights in hand; of one that is trained in part they are
 * put together in scratch, unless all are trained or none. */
static void mct_grad_take(mct_grad_job *job, int32_t c, int32_t columns, const int8_t *w,
                          const int8_t *trained, int8_t *scratch) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const mct_trained_columns *t = &p->trained;
    const int32_t rows = p->dy.c * p->window.kernel_h * p->window.kernel_w;
    job->w = w + c;
    job->w_row = p->dx.c;
    if (trained == NULL || (t->channels == NULL && c >= t->columns)) {
        return;
    }
    if (t->channels == NULL && c + columns <= t->columns) {
        job->w = trained + c;
        job->w_row = t->columns;
        return;
    }
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t i = 0; i < columns; i++) {
            scratch[4 * row + i] = w[row * p->dx.c + c + i];
        }
    }
    for (int32_t j = 0; j < t->columns; j++) {
        const int32_t i = (t->channels == NULL ? j : t->channels[j]) - c;
        for (int32_t row = 0; i >= 0 && i < columns && row < rows; row++) {
            scratch[4 * row + i] = trained[row * t->columns + j];
        }
    }
    job->w = scratch;
    job->w_row = 4;
}

/* The columns in hand at all positions. */
static void mct_grad_columns(mct_grad_job *job, mct_helium_writer *to, int32_t c, int32_t columns) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    const int32_t positions = p->dx.h * p->dx.w;
    for (int32_t position = 0; position < positions; position += MCT_WAITING) {
        const int32_t count = mct_min(positions - position, MCT_WAITING);
        for (int32_t tap = 0; tap < taps; tap++) {
            for (int32_t o = 0; o < p->dy.c; o += MCT_TURNED) {
                const int32_t depth = mct_min(p->dy.c - o, MCT_TURNED);
                mct_turn(job, c, columns, tap, o, depth);
                mct_add_turned(job, tap, o, depth, position, count);
            }
        }
        mct_helium_write_columns(to, job->waiting[0], c, columns, position * p->dx.c + c, p->dx.c,
                                 count);
    }
}

void mct_conv_2d_grad_input_s8(const mct_conv_2d_grad_input_s8_params *p, const mct_step *step,
                               const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *w,
                               const int8_t *addend, const mct_exponent *addend_exponent,
                               const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                               int32_t *scratch, const int8_t *trained) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_gradient_add(&writer, &p->addend, addend, addend_exponent);
    mct_helium_writer to = {&writer, dx, 0};
    const mct_window *win = &p->window;
    mct_grad_job job;
    job.p = p;
    job.dy = dy;
    job.held_c = -1;
    job.point = win->kernel_h * win->kernel_w == 1 && win->stride_h == 1 && win->stride_w == 1 &&
                win->pad_top == 0 && win->pad_left == 0 && p->dx.h == p->dy.h && p->dx.w == p->dy.w;
    for (int32_t c = 0; c < p->dx.c; c += 4) {
        const int32_t columns = mct_min(p->dx.c - c, 4);
        mct_grad_take(&job, c, columns, w, trained, (int8_t *)scratch);
        mct_grad_columns(&job, &to, c, columns);
    }
    mct_helium_writer_end(&to);
}
