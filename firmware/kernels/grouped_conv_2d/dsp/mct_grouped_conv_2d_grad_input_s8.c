/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_gradient.h"
#include "mct_dsp_panel.h"
#include "mct_dsp_tiles.h"
#include "mct_grouped_conv_2d.h"
#include "mct_window.h"

/* Rows of weights that a panel holds, a multiple of 4; positions whose sums wait for the next ones. */
#define MCT_PANEL_ROWS 128
#define MCT_WAITING 64

typedef struct {
    const mct_grouped_conv_2d_grad_input_s8_params *p;
    const int8_t *dy, *dy_end; /* dy from the group's first channel on */
    const int8_t *w;           /* of the columns in hand, in the group's rows */
    uint32_t panel[MCT_PANEL_ROWS * 2];
    mct_sums4 waiting[MCT_WAITING];
} mct_grouped_job;

/* What one tap and the group's output channels o … o + depth - 1 add. */
static void mct_grouped_add_tap(mct_grouped_job *job, int32_t tap, int32_t o, int32_t depth,
                                int32_t position, int32_t count) {
    const mct_grouped_conv_2d_grad_input_s8_params *p = job->p;
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
static void mct_grouped_columns(mct_grouped_job *job, int32_t columns, int32_t position,
                                int32_t count) {
    const mct_grouped_conv_2d_grad_input_s8_params *p = job->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    const int32_t ins = p->dx.c / p->groups, outs = p->dy.c / p->groups;
    for (int32_t tap = 0; tap < taps; tap++) {
        for (int32_t o = 0; o < outs; o += MCT_PANEL_ROWS) {
            const int32_t depth = mct_min(outs - o, MCT_PANEL_ROWS);
            mct_panel_rows(job->w + (o * taps + tap) * ins, taps * ins, columns, depth, job->panel);
            mct_grouped_add_tap(job, tap, o, depth, position, count);
        }
    }
}

void mct_grouped_conv_2d_grad_input_s8(const mct_grouped_conv_2d_grad_input_s8_params *p,
                                       const mct_step *step, const int8_t *dy,
                                       const mct_exponent *dy_exponent, const int8_t *w,
                                       const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                       int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_dsp_writer to = mct_dsp_writer_of(&writer, dx);
    const int32_t positions = p->dx.h * p->dx.w;
    const int32_t ins = p->dx.c / p->groups, outs = p->dy.c / p->groups;
    const int32_t w_group = outs * p->window.kernel_h * p->window.kernel_w * ins;
    mct_grouped_job job;
    job.p = p;
    job.dy_end = dy + p->dy.h * p->dy.w * p->dy.c;
    for (int32_t c = 0; c < p->dx.c;) {
        const int32_t group = c / ins, i = c % ins;
        const int32_t columns = mct_min(ins - i, 4);
        mct_factor factors[4];
        mct_factors_of(&writer, c, columns, factors);
        job.dy = dy + group * outs;
        job.w = w + group * w_group + i;
        for (int32_t position = 0; position < positions; position += MCT_WAITING) {
            const int32_t count = mct_min(positions - position, MCT_WAITING);
            mct_grouped_columns(&job, columns, position, count);
            mct_dsp_write_columns(&to, factors, job.waiting, c, columns, position * p->dx.c + c,
                                  p->dx.c, count);
        }
        c += columns;
    }
    mct_dsp_writer_end(&to, 7);
}
