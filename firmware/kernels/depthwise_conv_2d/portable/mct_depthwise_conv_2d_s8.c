#include "mct_depthwise_apart.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_tiled.h"
#include "mct_tiled_requantize.h"
#include "mct_window.h"

#define MCT_FOUR 4

/* A depthwise convolution, of which up to four neighbouring channels are in hand. */
typedef struct {
    const mct_depthwise_conv_2d_s8_params *p;
    const int8_t *x; /* of the first channel in hand */
    int32_t pixel;   /* from one pixel of x to the next */
    const int8_t *w;
    mct_tiled_output out;
    int32_t c, channels;
    int32_t bias[MCT_FOUR];
    int32_t start[MCT_FOUR]; /* less what the zero point makes of all taps */
    mct_tiled_channel channel[MCT_FOUR];
} mct_depthwise_job;

/* Adds the taps of a window's part at a position. */
static MCT_ALWAYS_INLINE mct_tiled_four mct_depthwise_add(const mct_depthwise_job *job,
                                                          const mct_window_part *part,
                                                          int32_t zero_point, mct_tiled_four s) {
    const mct_depthwise_conv_2d_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const int32_t w_step = p->y.c, x_step = win->dilation_w * job->pixel;
    const int32_t taps = part->columns.end - part->columns.begin;
    const int32_t first_x = part->first_x + part->columns.begin * win->dilation_w;
    for (int32_t ky = part->rows.begin; ky < part->rows.end; ky++) {
        const int32_t iy = part->first_y + ky * win->dilation_h;
        const int8_t *x = job->x + (iy * p->x.w + first_x) * job->pixel;
        const int8_t *w = job->w + (ky * win->kernel_w + part->columns.begin) * w_step;
        s = mct_tiled_add_four(x, x_step, zero_point, w, w_step, taps, s);
    }
    return s;
}

/* Four channels at a position. */
static MCT_APART void mct_depthwise_four(const mct_depthwise_job *job, const mct_window_part *part,
                                         int32_t i) {
    const mct_window *win = &job->p->window;
    mct_tiled_four s;
    if (mct_window_count(part) == win->kernel_h * win->kernel_w) {
        s = (mct_tiled_four){job->start[0], job->start[1], job->start[2], job->start[3]};
        s = mct_depthwise_add(job, part, 0, s);
    } else {
        s = (mct_tiled_four){job->bias[0], job->bias[1], job->bias[2], job->bias[3]};
        s = mct_depthwise_add(job, part, job->p->x_zero_point, s);
    }
    mct_tiled_store(&job->out, &job->channel[0], job->c, s.s0, i);
    mct_tiled_store(&job->out, &job->channel[1], job->c + 1, s.s1, i + 1);
    mct_tiled_store(&job->out, &job->channel[2], job->c + 2, s.s2, i + 2);
    mct_tiled_store(&job->out, &job->channel[3], job->c + 3, s.s3, i + 3);
}

/* Fewer channels at a position. */
static MCT_APART void mct_depthwise_few(const mct_depthwise_job *job, int32_t row, int32_t column,
                                        int32_t i) {
    const mct_depthwise_conv_2d_s8_params *p = job->p;
    const mct_shape shape = {p->x.h, p->x.w, job->pixel};
    for (int32_t n = 0; n < job->channels; n++) {
        const int32_t sum = mct_depthwise_sum(&shape, &p->window, p->x_zero_point, job->x + n,
                                              job->w + n, p->y.c, row, column);
        mct_tiled_store(&job->out, &job->channel[n], job->c + n, job->bias[n] + sum, i + n);
    }
}

static void mct_depthwise_channels(const mct_depthwise_job *job) {
    const mct_depthwise_conv_2d_s8_params *p = job->p;
    const mct_window *win = &p->window;
    int32_t i = job->c;
    for (int32_t row = 0; row < p->y.h; row++) {
        mct_window_part part = mct_window_inside(win, &p->x, row, 0);
        for (int32_t column = 0; column < p->y.w; column++, i += p->y.c) {
            if (job->channels < MCT_FOUR) {
                mct_depthwise_few(job, row, column, i);
                continue;
            }
            part.columns = mct_window_taps(part.first_x, win->kernel_w, win->dilation_w, p->x.w);
            mct_depthwise_four(job, &part, i);
            part.first_x += win->stride_w;
        }
    }
}

static MCT_APART void mct_depthwise_take(mct_depthwise_job *job, const int32_t *b) {
    const mct_depthwise_conv_2d_s8_params *p = job->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t n = 0; n < job->channels; n++) {
        const int32_t c = job->c + n;
        const int8_t *w = job->w + n;
        int32_t sum = 0;
        for (int32_t tap = 0; tap < taps; tap++, w += p->y.c) {
            sum += *w;
        }
        job->bias[n] = b[c];
        job->start[n] = b[c] - p->x_zero_point * sum;
        job->channel[n] = mct_tiled_channel_of(job->out.q, b[c], c, taps);
    }
}

/* What the result will overwrite, next to each other. */
static MCT_APART void mct_depthwise_set_aside(const mct_depthwise_job *job, int8_t *to) {
    const mct_depthwise_conv_2d_s8_params *p = job->p;
    const int8_t *x = job->x;
    for (int32_t i = 0; i < p->x.h * p->x.w; i++, x += p->x.c) {
        for (int32_t n = 0; n < job->channels; n++) {
            *to++ = x[n];
        }
    }
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    if (p->x.c != p->y.c) {
        mct_depthwise_apart(p, x, w, b, y, mask);
        return;
    }
    mct_depthwise_job job = {
        .p = p,
        .pixel = p->x.c,
        .out = mct_tiled_output_of(&p->requantize, p->y.h * p->y.w * p->y.c, y, mask),
    };
    for (job.c = 0; job.c < p->y.c; job.c += MCT_FOUR) {
        job.channels = mct_min(p->y.c - job.c, MCT_FOUR);
        job.x = x + job.c;
        job.w = w + job.c;
        if (x == y) {
            mct_depthwise_set_aside(&job, scratch);
            job.x = scratch;
            job.pixel = job.channels;
        }
        mct_depthwise_take(&job, b);
        mct_depthwise_channels(&job);
    }
}
