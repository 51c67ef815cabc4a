/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_factors.h"
#include "mct_grouped_conv_2d.h"
#include "mct_requantize_tile.h"
#include "mct_window.h"

/* A group as a convolution of its own, whose channels lie `pixel` apart from those of the next
 * position. */
typedef struct {
    mct_conv_job conv;
    int32_t pixel;
} mct_grouped_job;

/* Elements k … k + depth - 1 of the window at (row, column), tap by tap. */
static void mct_grouped_window(const mct_grouped_job *job, int32_t row, int32_t column, int32_t k,
                               int32_t depth, int8_t *a) {
    const mct_window *win = job->conv.window;
    const mct_shape *x = job->conv.x_shape;
    int32_t tap = k / x->c, skipped = k % x->c;
    for (int32_t at = 0; at < depth; tap++) {
        const int32_t position = mct_window_tap_2d(win, x, row, column, tap);
        const int32_t count = mct_min(x->c - skipped, depth - at);
        const int8_t *line = job->conv.x + (position < 0 ? 0 : position * job->pixel);
        mct_copy_run(line, position < 0 ? 0 : x->c, skipped, count, job->conv.x_zero_point, a + at);
        at += count;
        skipped = 0;
    }
}

static void mct_grouped_fill_a(const void *job_, int32_t row, int32_t rows, int32_t k,
                               int32_t depth, int32_t stride, int8_t *a) {
    const mct_grouped_job *job = job_;
    const int32_t width = job->conv.y_shape->w;
    for (int32_t r = 0; r < rows; r++) {
        mct_grouped_window(job, (row + r) / width, (row + r) % width, k, depth, a + r * stride);
    }
}

static void mct_grouped_fill_b(const void *job, int32_t k, int32_t depth, int32_t column,
                               int32_t columns, int8_t *b) {
    mct_conv_fill_b(&((const mct_grouped_job *)job)->conv, k, depth, column, columns, b);
}

typedef struct {
    mct_requantized all;
    int32_t first; /* output channel of the group */
} mct_grouped_result;

static void mct_grouped_take(void *result, const mct_tile *tile) {
    mct_grouped_result *to = result;
    mct_tile moved = *tile;
    moved.column += to->first;
    mct_take_requantized(&to->all, &moved);
}

void mct_grouped_conv_2d_s8(const mct_grouped_conv_2d_s8_params *p, const int8_t *x,
                            const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
    const int32_t ins = p->x.c / p->groups, outs = p->y.c / p->groups;
    const mct_shape x_shape = {p->x.h, p->x.w, ins};
    const int32_t terms = p->window.kernel_h * p->window.kernel_w * ins;
    const int32_t most = mct_most_of(terms, MCT_MOST_OF_A_TERM);
    mct_grouped_result result = {{&p->requantize, b, p->y.c, y, mask, most}, 0};
    mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
    for (int32_t group = 0; group < p->groups; group++) {
        mct_grouped_job job = {
            {&x_shape, &p->y, &p->window, p->x_zero_point, x + group * ins, NULL, NULL, NULL},
            p->x.c};
        const int32_t depth = mct_conv_depth(&job.conv);
        job.conv.w = w + group * outs * depth;
        result.first = group * outs;
        const mct_product product = {
            .rows = p->y.h * p->y.w,
            .columns = outs,
            .depth = depth,
            .job = &job,
            .a_zero_point = p->x_zero_point,
            .fill_a = mct_grouped_fill_a,
            .fill_b = mct_grouped_fill_b,
            .take = mct_grouped_take,
            .result = &result,
        };
        mct_product_run(&product);
    }
}
