#include "mct_depthwise_conv_2d.h"
#include "mct_tiled.h"
#include "mct_tiled_gradient.h"
#include "mct_window.h"

#define MCT_FOUR 4

/* The gradient of a depthwise convolution's input, of which up to four neighbouring channels are in hand. */
typedef struct {
    const mct_depthwise_conv_2d_grad_input_s8_params *p;
    const int8_t *dy; /* of the first channel in hand */
    int32_t pixel;    /* from one pixel of dy to the next */
    const int8_t *w;
    int32_t multiplier; /* channels of dy for each */
    mct_tiled_writer to;
    uint32_t seen;
    int32_t c, channels;
    mct_tiled_factor factor[MCT_FOUR];
} mct_grad_job;

/* Adds the columns of a row of dy that lie over a pixel, from the left to the right: the tap `at` of the
 * window's row at w, then those before it. */
static MCT_ALWAYS_INLINE mct_tiled_four mct_grad_add(const mct_grad_job *job, const int8_t *dy,
                                                     const int8_t *w, int32_t at, int32_t columns,
                                                     mct_tiled_four s) {
    const mct_window *win = &job->p->window;
    const int32_t channels = job->p->dy.c;
    if (win->dilation_w == 1) {
        return mct_tiled_add_four(dy, job->pixel, 0, w + at * channels, -win->stride_w * channels,
                                  columns, s);
    }
    for (; columns > 0; columns--, at -= win->stride_w, dy += job->pixel) {
        if (at % win->dilation_w == 0) {
            const int8_t *tap = w + at / win->dilation_w * channels;
            s = mct_tiled_add_four(dy, 0, 0, tap, 0, 1, s);
        }
    }
    return s;
}

/* Four channels of the pixel in the column ix, over which these rows and columns of dy lie. iy: with
 * the padding above it */
static MCT_APART void mct_grad_four(mct_grad_job *job, int32_t iy, int32_t ix, mct_span rows,
                                    int32_t i) {
    const mct_depthwise_conv_2d_grad_input_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const mct_span columns = mct_tiled_readers(ix, win->kernel_w, win->dilation_w, win->pad_left,
                                               win->stride_w, p->dy.w);
    const int32_t at = ix + win->pad_left - columns.begin * win->stride_w;
    mct_tiled_four s = {0, 0, 0, 0};
    for (int32_t row = rows.begin; row < rows.end; row++) {
        const int32_t ky = mct_tiled_tap(iy - row * win->stride_h, win->dilation_h);
        if (ky >= 0) {
            const int8_t *dy = job->dy + (row * p->dy.w + columns.begin) * job->pixel;
            const int8_t *w = job->w + ky * win->kernel_w * p->dy.c;
            s = mct_grad_add(job, dy, w, at, columns.end - columns.begin, s);
        }
    }
    mct_tiled_round(&job->to, &job->factor[0], job->c, s.s0, i, &job->seen);
    mct_tiled_round(&job->to, &job->factor[1], job->c + 1, s.s1, i + 1, &job->seen);
    mct_tiled_round(&job->to, &job->factor[2], job->c + 2, s.s2, i + 2, &job->seen);
    mct_tiled_round(&job->to, &job->factor[3], job->c + 3, s.s3, i + 3, &job->seen);
}

/* The same of fewer channels, or of such that several of dy's belong to. */
static MCT_APART void mct_grad_few(mct_grad_job *job, int32_t iy, int32_t ix, mct_span rows,
                                   int32_t i) {
    const mct_depthwise_conv_2d_grad_input_s8_params *p = job->p;
    const mct_window *win = &p->window;
    const mct_span columns = mct_tiled_readers(ix, win->kernel_w, win->dilation_w, win->pad_left,
                                               win->stride_w, p->dy.w);
    for (int32_t n = 0; n < job->channels; n++) {
        int32_t sum = 0;
        for (int32_t row = rows.begin; row < rows.end; row++) {
            const int32_t ky = mct_tiled_tap(iy - row * win->stride_h, win->dilation_h);
            for (int32_t column = columns.begin; ky >= 0 && column < columns.end; column++) {
                const int32_t kx =
                    mct_tiled_tap(ix + win->pad_left - column * win->stride_w, win->dilation_w);
                const int8_t *dy = job->dy + (row * p->dy.w + column) * job->pixel;
                const int8_t *w = job->w + (ky * win->kernel_w + kx) * p->dy.c;
                for (int32_t m = 0; kx >= 0 && m < job->multiplier; m++) {
                    sum += dy[n * job->multiplier + m] * w[n * job->multiplier + m];
                }
            }
        }
        mct_tiled_round(&job->to, &job->factor[n], job->c + n, sum, i + n, &job->seen);
    }
}

static MCT_APART void mct_grad_channels(mct_grad_job *job) {
    const mct_depthwise_conv_2d_grad_input_s8_params *p = job->p;
    const mct_window *win = &p->window;
    int32_t i = job->c;
    for (int32_t iy = 0; iy < p->dx.h; iy++) {
        const mct_span rows = mct_tiled_readers(iy, win->kernel_h, win->dilation_h, win->pad_top,
                                                win->stride_h, p->dy.h);
        for (int32_t ix = 0; ix < p->dx.w; ix++, i += p->dx.c) {
            if (job->channels == MCT_FOUR && job->multiplier == 1) {
                mct_grad_four(job, iy + win->pad_top, ix, rows, i);
            } else {
                mct_grad_few(job, iy + win->pad_top, ix, rows, i);
            }
        }
    }
}

/* What the result will overwrite, next to each other. */
static MCT_APART void mct_grad_set_aside(const mct_grad_job *job, int8_t *to) {
    const mct_shape *of = &job->p->dy;
    const int8_t *dy = job->dy;
    for (int32_t i = 0; i < of->h * of->w; i++, dy += of->c) {
        for (int32_t n = 0; n < job->channels; n++) {
            *to++ = dy[n];
        }
    }
}

void mct_depthwise_conv_2d_grad_input_s8(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *w,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int32_t *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_grad_job job = {
        .p = p,
        .pixel = p->dy.c,
        .multiplier = p->dy.c / p->dx.c,
        .to = mct_tiled_writer_of(&writer, dx),
    };
    for (job.c = 0; job.c < p->dx.c; job.c += MCT_FOUR) {
        job.channels = mct_min(p->dx.c - job.c, MCT_FOUR);
        for (int32_t n = 0; n < job.channels; n++) {
            job.factor[n] = mct_tiled_factor_of(&writer, job.c + n);
        }
        job.dy = dy + job.c * job.multiplier;
        job.w = w + job.c * job.multiplier;
        if (dx == dy) {
            mct_grad_set_aside(&job, (int8_t *)scratch);
            job.dy = (const int8_t *)scratch;
            job.pixel = job.channels;
        }
        mct_grad_channels(&job);
    }
    writer.seen |= job.seen;
    mct_gradient_end(&writer, 7);
}
