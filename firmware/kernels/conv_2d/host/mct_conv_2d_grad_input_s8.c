/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_product.h"
#include "mct_window.h"

/* dx as a product: a row is a position of dx, a column is an input channel; k counts the taps and,
 * in each, the output channels. */
typedef struct {
    const mct_conv_2d_grad_input_s8_params *p;
    const int8_t *dy, *w, *trained;
} mct_grad_job;

static void mct_grad_window(const mct_grad_job *job, int32_t position, int32_t k, int32_t depth,
                            int8_t *a) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const int32_t outs = p->dy.c;
    for (int32_t at = k; at < k + depth;) {
        const int32_t o = at % outs;
        const int32_t count = mct_min(outs - o, k + depth - at);
        const int32_t from = mct_window_source_2d(&p->window, &p->dy, position / p->dx.w,
                                                  position % p->dx.w, at / outs);
        if (from < 0) {
            memset(a + at - k, 0, (size_t)count);
        } else {
            memcpy(a + at - k, job->dy + from * outs + o, (size_t)count);
        }
        at += count;
    }
}

static void mct_grad_fill_a(const void *job, int32_t row, int32_t rows, int32_t k, int32_t depth,
                            int32_t stride, int8_t *a) {
    for (int32_t r = 0; r < rows; r++) {
        mct_grad_window(job, row + r, k, depth, a + r * stride);
    }
}

/* Whether the rows of factors lie in dy as they are. */
static int mct_grad_is_pointwise(const mct_conv_2d_grad_input_s8_params *p) {
    const mct_window *win = &p->window;
    return win->kernel_h * win->kernel_w * win->stride_h * win->stride_w == 1 &&
           win->pad_top == 0 && win->pad_left == 0 && p->dx.w == p->dy.w && p->dx.h == p->dy.h;
}

/* Where tap and output channel number k lie among the rows of weights. */
static int32_t mct_grad_row(const mct_grad_job *job, int32_t k) {
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    return k % p->dy.c * taps + k / p->dy.c;
}

static void mct_grad_fill_b(const void *job_, int32_t k, int32_t depth, int32_t column,
                            int32_t columns, int8_t *b) {
    const mct_grad_job *job = job_;
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const int32_t outs = p->dy.c;
    const int32_t step = p->window.kernel_h * p->window.kernel_w * p->dx.c; /* to the next output */
    int32_t at = mct_grad_row(job, k) * p->dx.c + column;
    int32_t left = outs - k % outs; /* of the tap */
    int32_t d = 0;
    for (; d + 4 <= depth && left >= 4; d += 4) { /* of this tap */
        const int8_t *w = job->w + at;
        const int8_t *const lines[4] = {w, w + step, w + 2 * step, w + 3 * step};
        mct_fill_lines(lines, columns, 0, b + d * MCT_TILE_COLUMNS);
        at += 4 * step;
        left -= 4;
        if (left == 0) {
            at += p->dx.c - outs * step;
            left = outs;
        }
    }
    for (; d < depth; d += 4) {
        const int8_t *lines[4] = {NULL};
        for (int32_t i = 0; i < 4 && d + i < depth; i++) {
            lines[i] = job->w + at;
            at += step;
            if (--left == 0) {
                at += p->dx.c - outs * step;
                left = outs;
            }
        }
        mct_fill_lines(lines, columns, 0, b + d * MCT_TILE_COLUMNS);
    }
}

/* Those of the trained columns that lie in a tile of columns: which they are, and where in the tile. */
typedef struct {
    int32_t count;
    int32_t trained[MCT_TILE_COLUMNS], column[MCT_TILE_COLUMNS];
} mct_places;

static mct_places mct_places_of(const mct_trained_columns *t, int32_t column, int32_t columns) {
    mct_places places = {.count = 0};
    for (int32_t j = 0; j < t->columns; j++) {
        const int32_t c = (t->channels == NULL ? j : t->channels[j]) - column;
        if (c >= 0 && c < columns) {
            places.trained[places.count] = j;
            places.column[places.count++] = c;
        }
    }
    return places;
}

/* What is trained comes in the place of what w has there. */
static void mct_grad_fill_merged(const void *job_, int32_t k, int32_t depth, int32_t column,
                                 int32_t columns, int8_t *b) {
    const mct_grad_job *job = job_;
    const mct_conv_2d_grad_input_s8_params *p = job->p;
    const mct_places places = mct_places_of(&p->trained, column, columns);
    const int32_t step = p->window.kernel_h * p->window.kernel_w * p->trained.columns;
    mct_grad_fill_b(job, k, depth, column, columns, b);
    for (int32_t d = 0; d < depth;) {
        const int32_t run = mct_min(p->dy.c - (k + d) % p->dy.c, depth - d); /* of the same tap */
        const int8_t *from = job->trained + mct_grad_row(job, k + d) * p->trained.columns;
        for (const int32_t end = d + run; d < end; d++) {
            int8_t *to = b + mct_quad_place(d, 0);
            for (int32_t i = 0; i < places.count; i++) {
                to[4 * places.column[i]] = from[places.trained[i]];
            }
            from += step;
        }
    }
}

void mct_conv_2d_grad_input_s8(const mct_conv_2d_grad_input_s8_params *p, const mct_step *step,
                               const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *w,
                               const int8_t *addend, const mct_exponent *addend_exponent,
                               const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                               int32_t *scratch, const int8_t *trained) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    mct_gradient_add(&writer, &p->addend, addend, addend_exponent);
    const mct_grad_job job = {p, dy, w, trained};
    mct_gradients result = {&writer, p->dx.c, dx};
    const mct_product product = {
        .rows = p->dx.h * p->dx.w,
        .columns = p->dx.c,
        .depth = p->window.kernel_h * p->window.kernel_w * p->dy.c,
        .job = &job,
        .a = mct_grad_is_pointwise(p) ? dy : NULL,
        .a_step = p->dy.c,
        .fill_a = mct_grad_fill_a,
        .fill_b = trained == NULL ? mct_grad_fill_b : mct_grad_fill_merged,
        .take = mct_take_gradients,
        .result = &result,
    };
    mct_product_run(&product);
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
