#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_dsp_depthwise.h"
#include "mct_dsp_requantize.h"

/* Of which the sums lie on the stack. */
#define MCT_BLOCK_COLUMNS 32

typedef struct {
    mct_dsp_output out;
    int32_t depth;
    mct_dsp_channel channels[4];
} mct_filtered;

static void mct_begin_filtered(void *result, const mct_depthwise_block *b) {
    mct_filtered *to = result;
    for (int32_t l = 0; l < b->channels; l++) {
        to->channels[l] = mct_dsp_channel_of(to->out.q, to->out.b, b->c + l, to->depth);
    }
}

static void mct_take_filtered(void *result, const mct_depthwise_block *b, int32_t l,
                              int32_t position) {
    const mct_filtered *to = result;
    const mct_dsp_output *out = &to->out;
    const mct_dsp_channel *channel = &to->channels[l];
    const int32_t i = position * out->stride + b->c + l;
    int32_t done = 0;
    if (out->full && out->mask == NULL && channel->bits >= 0) {
        done = mct_depthwise_bytes(b, l, channel, out->stride, out->y + i);
    }
    if (done == b->columns) {
        return;
    }
    int32_t sums[MCT_BLOCK_COLUMNS];
    mct_depthwise_sums(b, l, channel->start, sums);
    mct_dsp_store(out, channel, b->c + l, sums + done, i + done * out->stride, b->columns - done);
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    const mct_window *win = &p->window;
    const mct_depthwise d = {
        .from = &p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .kernel_h = win->kernel_h,
        .kernel_w = win->kernel_w,
        .stride_h = win->stride_h,
        .stride_w = win->stride_w,
        .pad_top = win->pad_top,
        .pad_left = win->pad_left,
        .upsample_h = 1,
        .upsample_w = 1,
        .factor = 2,
        .zero_point = p->x_zero_point,
        .most_columns = MCT_BLOCK_COLUMNS,
        .x = x,
        .w = w,
        .aside = x == y ? scratch : NULL,
    };
    if (p->x.c == p->y.c && win->dilation_h == 1 && win->dilation_w == 1 &&
        mct_depthwise_columns(&d) > 0) {
        mct_filtered result = {
            .out = mct_dsp_output_of(&p->requantize, b, p->y.h * p->y.w, p->y.c, y, mask),
            .depth = win->kernel_h * win->kernel_w,
        };
        mct_depthwise_run(&d, mct_begin_filtered, mct_take_filtered, &result);
        return;
    }
    mct_depthwise_any(p, x, w, b, y, mask, scratch);
}
