/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_dsp_grad_weights.h"
#include "mct_dsp_gradient16.h"
#include "mct_dsp_pairs.h"
#include "mct_dsp_panel.h"
#include "mct_window.h"

/* Rows of weights that a panel holds, a multiple of 4; terms of int16 and int8 whose sum fits int32; positions
 * whose sums wait, as int32 or, of more terms, also as int64. */
#define MCT_PANEL_ROWS 128
#define MCT_NARROW_TERMS 512
#define MCT_WAITING 60
#define MCT_WIDE_WAITING 20

typedef struct {
    const mct_conv_2d_grad_input_s16_params *p;
    const int16_t *dy, *dy_end;
    mct_grad_weights weights;
    int32_t point; /* 1: the pixel i of dx gets what the pixel i of dy gives */
    int32_t wide;  /* 1: there are more terms than int32 holds */
    uint32_t panel[MCT_PANEL_ROWS * 2];
    union {
        mct_sums4 narrow[MCT_WAITING];
        struct {
            mct_sums4 part[MCT_WIDE_WAITING];
            int64_t sums[MCT_WIDE_WAITING][4];
        } wide;
    } waiting;
} mct_grad_job;

/* What a panel adds to `count` positions, whose streams follow each other `stride` apart. */
static void mct_add_stream(mct_grad_job *job, const int16_t *stream, int32_t stride, int32_t depth,
                           int32_t count, mct_sums4 *sums) {
    const int32_t quads = (depth + 3) / 4;
    while (count > 0 && job->dy_end - stream < (count - 1) * stride + 4 * quads) {
        count--; /* whose last numbers would be read beyond dy */
        mct_pairs_add(job->panel, stream + count * stride, depth, &sums[count]);
    }
    if (count > 0) {
        const mct_tile_pairs tile = {
            .panel = job->panel,
            .quads = quads,
            .stride = 2 * (stride - 4 * quads),
            .count = count,
            .stream = stream,
            .sums = sums->lane,
        };
        mct_tile_pairs_run(&tile);
    }
}

/* What one tap and the output channels o … o + depth - 1 add. */
static void mct_add_part(mct_grad_job *job, int32_t tap, int32_t o, int32_t depth, int32_t position,
                         int32_t count) {
    const mct_conv_2d_grad_input_s16_params *p = job->p;
    mct_sums4 *sums = job->waiting.narrow;
    if (job->point) {
        mct_add_stream(job, job->dy + position * p->dy.c + o, p->dy.c, depth, count, sums);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        const int32_t at = position + i;
        const int32_t from =
            mct_window_source_2d(&p->window, &p->dy, at / p->dx.w, at % p->dx.w, tap);
        if (from >= 0) {
            mct_add_stream(job, job->dy + from * p->dy.c + o, 0, depth, 1, sums + i);
        }
    }
}

static void mct_clear_sums(mct_sums4 *sums, int32_t count) {
    for (int32_t i = 0; i < 4 * count; i++) {
        sums->lane[i] = 0;
        mct_keep_loop();
    }
}

/* Adds the sums as int32 to those as int64, and clears them. */
static void mct_widen(mct_grad_job *job, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        for (int32_t l = 0; l < 4; l++) {
            job->waiting.wide.sums[i][l] += job->waiting.wide.part[i].lane[l];
        }
    }
    mct_clear_sums(job->waiting.wide.part, count);
}

/* The sums of the columns in hand, 1 to 4. */
static void mct_grad_columns(mct_grad_job *job, int32_t columns, int32_t position, int32_t count) {
    const mct_conv_2d_grad_input_s16_params *p = job->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    int32_t terms = 0;
    mct_clear_sums(job->waiting.narrow, count);
    for (int32_t i = 0; job->wide && i < 4 * count; i++) {
        job->waiting.wide.sums[i / 4][i % 4] = 0;
    }
    for (int32_t tap = 0; tap < taps; tap++) {
        for (int32_t o = 0; o < p->dy.c; o += MCT_PANEL_ROWS) {
            const int32_t depth = mct_min(p->dy.c - o, MCT_PANEL_ROWS);
            mct_pairs_rows(job->weights.w + (o * taps + tap) * job->weights.row,
                           taps * job->weights.row, columns, depth, job->panel);
            if (job->wide && terms + depth > MCT_NARROW_TERMS) {
                mct_widen(job, count);
                terms = 0;
            }
            mct_add_part(job, tap, o, depth, position, count);
            terms += depth;
        }
    }
    if (job->wide) {
        mct_widen(job, count);
    }
}

/* Writes sums as int64: what fits int32 the short way. */
static void mct_write_wide(mct_grad_job *job, mct_gradient_writer *writer,
                           const mct_factor16 *factors, int32_t c, int32_t columns, int32_t first,
                           int32_t count, int16_t *dx) {
    for (int32_t i = 0; i < count; i++, first += job->p->dx.c) {
        for (int32_t l = 0; l < columns; l++) {
            const int64_t sum = job->waiting.wide.sums[i][l];
            const int32_t narrow = (int32_t)sum;
            const mct_dsp_sums sums = {&narrow, 0, 0};
            if (narrow == sum) {
                mct_dsp_write_sums16(writer, factors + l, sums, c + l, 1, first + l, 0, 1, dx);
            } else {
                mct_gradient_put_s16(writer, sum, c + l, first + l, dx + first + l);
            }
        }
    }
}

void mct_conv_2d_grad_input_s16(const mct_conv_2d_grad_input_s16_params *p, const mct_step *step,
                                const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *w,
                                const int16_t *addend, const mct_exponent *addend_exponent,
                                const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                                int64_t *scratch, const int8_t *trained) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S16, mask, exponent);
    mct_gradient_add(&writer, &p->addend, addend, addend_exponent);
    const mct_window *win = &p->window;
    const int32_t positions = p->dx.h * p->dx.w;
    mct_grad_job job;
    job.p = p;
    job.dy = dy;
    job.dy_end = dy + p->dy.h * p->dy.w * p->dy.c;
    job.point = win->kernel_h * win->kernel_w == 1 && win->stride_h == 1 && win->stride_w == 1 &&
                win->pad_top == 0 && win->pad_left == 0 && p->dx.h == p->dy.h && p->dx.w == p->dy.w;
    job.wide = win->kernel_h * win->kernel_w * p->dy.c > MCT_NARROW_TERMS;
    const int32_t most = job.wide ? MCT_WIDE_WAITING : MCT_WAITING;
    for (int32_t c = 0; c < p->dx.c; c += 4) {
        const int32_t columns = mct_min(p->dx.c - c, 4);
        mct_factor16 factors[4];
        mct_factors16_of(&writer, c, columns, factors);
        job.weights = mct_grad_weights_of(p, c, columns, w, trained, (int8_t *)(void *)scratch);
        for (int32_t position = 0; position < positions; position += most) {
            const int32_t count = mct_min(positions - position, most);
            const int32_t first = position * p->dx.c + c;
            mct_grad_columns(&job, columns, position, count);
            if (job.wide) {
                mct_write_wide(&job, &writer, factors, c, columns, first, count, dx);
            } else {
                const mct_dsp_sums sums = {job.waiting.narrow[0].lane, 1, 4};
                mct_dsp_write_sums16(&writer, factors, sums, c, columns, first, p->dx.c, count, dx);
            }
        }
    }
    mct_gradient_end(&writer, 15);
}
