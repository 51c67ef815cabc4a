#include "mct_conv_2d.h"
#include "mct_tiled.h"
#include "mct_tiled_requantize.h"
#include "mct_window.h"

/* A convolution, two output channels of which are in hand. */
typedef struct {
    const mct_conv_2d_s8_params *p;
    mct_shape of;          /* x; where a position reads nothing but its own pixel, all in one row */
    int32_t rows, columns; /* of y, likewise */
    mct_span inner;        /* the columns whose windows reach over neither side of x */
    int32_t tiles;         /* in these, where no tap is dilated */
    const int8_t *x;
    int32_t x_row; /* from one row of x to the next */
    int32_t depth; /* terms of a sum */
    mct_tiled_output out;
    int32_t c, channels; /* the first one in hand, and how many there are, 1 or 2 */
    const int8_t *w;     /* their weights; the second's, too, where there is one only */
    int32_t w_step;
    int32_t bias[2];
    int32_t start[2]; /* less what the zero point makes of all terms */
    mct_tiled_channel channel[2];
} mct_conv_job;

/* One position, at which the window may reach over the image's border. */
static MCT_APART void mct_conv_one(const mct_conv_job *job, int32_t row, int32_t column) {
    const mct_conv_2d_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t ins = p->x.c;
    const mct_window_part part = mct_window_inside(win, &job->of, row, column);
    /* neighbouring taps lie next to each other, unless they are dilated */
    const int32_t taps = win->dilation_w == 1 ? part.columns.end - part.columns.begin : 1;
    mct_tiled_two sums = {job->bias[0], job->bias[1]};
    for (int32_t ky = part.rows.begin; ky < part.rows.end; ky++) {
        const int8_t *x = job->x + (part.first_y + ky * win->dilation_h) * job->x_row;
        const int8_t *w = job->w + ky * win->kernel_w * ins;
        for (int32_t kx = part.columns.begin; kx < part.columns.end; kx += taps) {
            sums = mct_tiled_add_one(x + (part.first_x + kx * win->dilation_w) * ins,
                                     p->x_zero_point, w + kx * ins, job->w_step, taps * ins, sums);
        }
    }
    const int32_t i = (row * job->columns + column) * p->y.c + job->c;
    mct_tiled_store(&job->out, &job->channel[0], job->c, sums.first, i);
    if (job->channels > 1) {
        mct_tiled_store(&job->out, &job->channel[1], job->c + 1, sums.second, i + 1);
    }
}

/* The positions begin … end - 1 of a row: whole tiles of windows that lie in the image. */
static MCT_APART void mct_conv_tiles(const mct_conv_job *job, int32_t row, int32_t begin,
                                     int32_t end) {
    const mct_window *win = &job->p->window;
    const int32_t ins = job->p->x.c, outs = job->p->y.c, kernel_h = win->kernel_h;
    const int32_t terms = win->kernel_w * ins, step = win->stride_w * ins;
    const int32_t line = win->dilation_h * job->x_row;
    const mct_tiled_output out = job->out;
    const mct_tiled_channel one = job->channel[0], two = job->channel[1];
    const int8_t *x = job->x + (row * win->stride_h - win->pad_top) * job->x_row +
                      (begin * win->stride_w - win->pad_left) * ins;
    const int32_t c = job->c;
    int32_t i = (row * job->columns + begin) * outs + c;
    for (; begin < end; begin += MCT_TILED_POSITIONS) {
        const int8_t *taps = x, *w = job->w;
        mct_tiled_sums sums = {mct_tiled_line_from(job->start[0]),
                               mct_tiled_line_from(job->start[1])};
        for (int32_t ky = 0; ky < kernel_h; ky++, taps += line, w += terms) {
            sums = mct_tiled_add(taps, step, w, job->w_step, terms, sums);
        }
        mct_tiled_store_line(&out, &one, c, sums.first, i, outs);
        if (job->channels > 1) {
            mct_tiled_store_line(&out, &two, c + 1, sums.second, i + 1, outs);
        }
        x += MCT_TILED_POSITIONS * step;
        i += MCT_TILED_POSITIONS * outs;
    }
}

static void mct_conv_channels(const mct_conv_job *job) {
    const mct_window *win = &job->p->window;
    for (int32_t row = 0; row < job->rows; row++) {
        const int32_t y = row * win->stride_h - win->pad_top;
        const int whole = y >= 0 && y + (win->kernel_h - 1) * win->dilation_h < job->of.h;
        const int32_t tiles = whole ? job->tiles : 0;
        const int32_t begin = tiles > 0 ? job->inner.begin : 0;
        const int32_t end = begin + tiles * MCT_TILED_POSITIONS;
        for (int32_t column = 0; column < begin; column++) {
            mct_conv_one(job, row, column);
        }
        mct_conv_tiles(job, row, begin, end);
        for (int32_t column = end; column < job->columns; column++) {
            mct_conv_one(job, row, column);
        }
    }
}

/* The rows of a weight that is trained in part, put together. */
static MCT_APART const int8_t *mct_conv_merged(const mct_conv_job *job, const int8_t *w,
                                               const int8_t *trained, int8_t *scratch) {
    const mct_trained_columns *t = &job->p->trained;
    const int32_t ins = job->p->x.c, size = job->channels * job->depth;
    for (int32_t i = 0; i < size; i++) {
        scratch[i] = w[job->c * job->depth + i];
    }
    const int8_t *from = trained + job->c * (job->depth / ins) * t->columns;
    for (int8_t *to = scratch; to < scratch + size; to += ins) {
        for (int32_t j = 0; j < t->columns; j++) {
            to[t->channels == NULL ? j : t->channels[j]] = *from++;
        }
    }
    return scratch;
}

static MCT_APART void mct_conv_take(mct_conv_job *job, const int32_t *b) {
    for (int32_t i = 0; i < 2; i++) {
        const int32_t c = job->c + mct_min(i, job->channels - 1);
        const int8_t *w = job->w + i * job->w_step;
        int32_t sum = 0;
        for (int32_t k = 0; job->tiles > 0 && k < job->depth; k++) {
            sum += w[k];
        }
        job->bias[i] = b[c];
        job->start[i] = b[c] - job->p->x_zero_point * sum;
        job->channel[i] = mct_tiled_channel_of(job->out.q, b[c], c, job->depth);
    }
}

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask, const int8_t *trained,
                    int8_t *scratch) {
    const mct_window *win = &p->window;
    const int32_t depth = win->kernel_h * win->kernel_w * p->x.c;
    mct_conv_job job = {
        .p = p,
        .of = p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .x = x,
        .depth = depth,
        .out = mct_tiled_output_of(&p->requantize, p->y.h * p->y.w * p->y.c, y, mask),
    };
    if (win->kernel_h * win->kernel_w == 1 && win->stride_h == 1 && win->stride_w == 1 &&
        win->pad_top == 0 && win->pad_left == 0 && p->x.h == p->y.h && p->x.w == p->y.w) {
        job.of.w = job.columns = p->y.h * p->y.w;
        job.of.h = job.rows = 1;
    }
    job.x_row = job.of.w * p->x.c;
    job.inner = mct_tiled_inner(win, job.of.w, job.columns);
    if (win->dilation_w == 1 && job.inner.begin < job.inner.end) {
        job.tiles = (job.inner.end - job.inner.begin) / MCT_TILED_POSITIONS;
    }
    for (job.c = 0; job.c < p->y.c; job.c += 2) {
        job.channels = mct_min(p->y.c - job.c, 2);
        job.w = trained == NULL ? w + job.c * depth : mct_conv_merged(&job, w, trained, scratch);
        job.w_step = job.channels > 1 ? depth : 0;
        mct_conv_take(&job, b);
        mct_conv_channels(&job);
    }
}
