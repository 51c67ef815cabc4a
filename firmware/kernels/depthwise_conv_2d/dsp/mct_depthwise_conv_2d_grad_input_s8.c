#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise.h"
#include "mct_dsp_gradient.h"
#include "mct_grad_s8.h"
#include "mct_window.h"

#include "mct_depthwise_grad_in_place.h"

/* Of which the sums lie on the stack. */
#define MCT_BLOCK_COLUMNS 8

typedef struct {
    mct_dsp_writer writer;
    int32_t stride;
    mct_factor factors[4];
    mct_sums4 sums[MCT_BLOCK_COLUMNS]; /* of the channels of a block */
} mct_gathered;

static void mct_begin_gathered(void *result, const mct_depthwise_block *b) {
    mct_gathered *to = result;
    mct_factors_of(to->writer.writer, b->c, b->channels, to->factors);
}

static void mct_take_gathered(void *result, const mct_depthwise_block *b, int32_t l,
                              int32_t position) {
    mct_gathered *to = result;
    int32_t sums[MCT_BLOCK_COLUMNS];
    mct_depthwise_sums(b, l, 0, sums);
    for (int32_t i = 0; i < b->columns; i++) {
        to->sums[i].lane[l] = sums[i];
    }
    if (l + 1 == b->channels) {
        mct_dsp_write_columns(&to->writer, to->factors, to->sums, b->c, b->channels,
                              position * to->stride + b->c, to->stride, b->columns);
    }
}

/* The sums of a position, for any window and channel multiplier. */
static void mct_position_sums(const mct_depthwise_conv_2d_grad_input_s8_params *p, int32_t position,
                              const int8_t *dy, const int8_t *w, int32_t *sums) {
    const int32_t multiplier = p->dy.c / p->dx.c;
    for (int32_t i = 0; i < p->dx.c; i++) {
        sums[i] = 0;
    }
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t from =
            mct_window_source_2d(&p->window, &p->dy, position / p->dx.w, position % p->dx.w, tap);
        for (int32_t c = 0; from >= 0 && c < p->dy.c; c++) {
            sums[c / multiplier] += dy[from * p->dy.c + c] * w[tap * p->dy.c + c];
        }
    }
}

void mct_depthwise_conv_2d_grad_input_s8(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *w,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int32_t *scratch) {
    const mct_window *win = &p->window;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_gathered result = {.writer = mct_dsp_writer_of(&writer, dx), .stride = p->dx.c};
    const mct_depthwise d = {
        .from = &p->dy,
        .rows = p->dx.h,
        .columns = p->dx.w,
        .kernel_h = win->kernel_h,
        .kernel_w = win->kernel_w,
        .stride_h = 1,
        .stride_w = 1,
        .pad_top = win->kernel_h - 1 - win->pad_top,
        .pad_left = win->kernel_w - 1 - win->pad_left,
        .upsample_h = win->stride_h,
        .upsample_w = win->stride_w,
        .flipped = 1,
        .factor = 1,
        .most_columns = MCT_BLOCK_COLUMNS,
        .x = dy,
        .w = w,
        .aside = dy == dx ? (int8_t *)scratch : NULL,
    };
    if (p->dx.c == p->dy.c && win->dilation_h == 1 && win->dilation_w == 1 &&
        mct_depthwise_columns(&d) > 0) {
        mct_depthwise_run(&d, mct_begin_gathered, mct_take_gathered, &result);
    } else if (dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, win, w, dx, (int8_t *)scratch, &writer);
    } else {
        for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
            mct_position_sums(p, position, dy, w, scratch);
            const int32_t first = position * p->dx.c;
            mct_gradient_write_s8(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_dsp_writer_end(&result.writer, 7);
}
