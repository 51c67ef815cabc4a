/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_dsp_grad_weights.h"
#include "mct_dsp_gradient.h"
#include "mct_dsp_panel.h"
#include "mct_dsp_tiles.h"
#include "mct_window.h"

/* Rows of weights that a panel holds, a multiple of 4; positions whose sums wait for the next ones. */
#define MCT_PANEL_ROWS 128
#define MCT_WAITING 64

typedef struct {
    const mct_conv_2d_grad_input_s8_params *p;
    const int8_t *dy, *dy_end;
    mct_grad_weights weights;
    int32_t point; /* 1: the pixel i of dx gets what the pixel i of dy gives */
    uint32_t panel[MCT_PANEL_ROWS * 2];
    mct_sums4 waiting[MCT_WAITING];
} mct_grad_job;

/* What the output channels o … o + depth - 1 add, where the position i of dx gets nothing but what the
 * position i of dy gives. The first part of the channels comes in the place of what was there. */
static void mct_add_point(mct_grad_job *job, int32_t o, int32_t depth, int32_t position,
                          int32_t count) {
    const int32_t outs = job->p->dy.c;
    const int32_t quads = (depth + 3) / 4;
    const int8_t *stream = job->dy + position * outs + o;
    while (count > 0 && job->dy_end - stream < (count - 1) * outs + 4 * quads) {
        count--; /* whose last word would be read beyond dy */
        mct_sums4 *sums = &job->waiting[count];
        if (o == 0) {
            *sums = (mct_sums4){{0, 0, 0, 0}};
        }
        *sums = mct_dot4_until(job->panel, stream + count * outs, depth, job->dy_end, *sums);
    }
    const mct_tile_positions tile = {
        .panel = job->panel,
        .quads = quads,
        .stride = outs - 4 * quads,
        .count = count,
        .stream = stream,
        .sums = job->waiting[0].lane,
    };
    if (count > 0 && o == 0) {
        mct_tile_positions_start(&tile);
    } else if (count > 0) {
        mct_tile_positions_add(&tile);
    }
}

/* What one tap and the output channels o … o + depth - 1 add. */
static void mct_add_tap(mct_grad_job *job, int32_t tap, int32_t o, int32_t depth, int32_t position,
                        int32_t count) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    for (int32_t i = 0; i < count; i++) {
        mct_sums4 *sums = &job->waiting[i];
        const int32_t at = position + i;
        const int32_t from =
            mct_window_source_2d(&p->window, &p->dy, at / p->dx.w, at % p->dx.w, tap);
        if (tap == 0 && o == 0) {
            *sums = (mct_sums4){{0, 0, 0, 0}};
        }
        if (from >= 0) {
            *sums =
                mct_dot4_until(job->panel, job->dy + from * p->dy.c + o, depth, job->dy_end, *sums);
        }
    }
}

/* The sums of the columns in hand, 1 to 4. */
static void mct_grad_columns(mct_grad_job *job, int32_t columns, int32_t position, int32_t count) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t tap = 0; tap < taps; tap++) {
        for (int32_t o = 0; o < p->dy.c; o += MCT_PANEL_ROWS) {
            const int32_t depth = mct_min(p->dy.c - o, MCT_PANEL_ROWS);
            mct_panel_rows(job->weights.w + (o * taps + tap) * job->weights.row,
                           taps * job->weights.row, columns, depth, job->panel);
            if (job->point) {
                mct_add_point(job, o, depth, position, count);
            } else {
                mct_add_tap(job, tap, o, depth, position, count);
            }
        }
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
    mct_dsp_writer to = mct_dsp_writer_of(&writer, dx);
    const mct_window *win = &p->window;
    const int32_t positions = p->dx.h * p->dx.w;
    mct_grad_job job;
    job.p = p;
    job.dy = dy;
    job.dy_end = dy + p->dy.h * p->dy.w * p->dy.c;
    job.point = win->kernel_h * win->kernel_w == 1 && win->stride_h == 1 && win->stride_w == 1 &&
                win->pad_top == 0 && win->pad_left == 0 && p->dx.h == p->dy.h && p->dx.w == p->dy.w;
    for (int32_t c = 0; c < p->dx.c; c += 4) {
        const int32_t columns = mct_min(p->dx.c - c, 4);
        mct_factor factors[4];
        mct_factors_of(&writer, c, columns, factors);
        job.weights = mct_grad_weights_of(p, c, columns, w, trained, (int8_t *)scratch);
        for (int32_t position = 0; position < positions; position += MCT_WAITING) {
            const int32_t count = mct_min(positions - position, MCT_WAITING);
            mct_grad_columns(&job, columns, position, count);
            mct_dsp_write_columns(&to, factors, job.waiting, c, columns, position * p->dx.c + c,
                                  p->dx.c, count);
        }
    }
    mct_dsp_writer_end(&to, 7);
}
