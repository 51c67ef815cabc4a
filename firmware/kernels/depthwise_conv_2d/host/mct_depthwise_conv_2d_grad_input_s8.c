/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_window.h"

#include "mct_depthwise_grad_in_place.h"

/* The sums of a position, for any window and channel multiplier. */
static void mct_depthwise_sums(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                               int32_t position, const int8_t *dy, const int8_t *w, int32_t *sums) {
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

/* The window that, slid over dy with stride - 1 of zeros after each of its rows and columns, gathers
 * what the forward window scattered. */
static mct_window mct_transposed(const mct_window *win) {
    return (mct_window){
        .kernel_h = win->kernel_h,
        .kernel_w = win->kernel_w,
        .stride_h = 1,
        .stride_w = 1,
        .dilation_h = win->dilation_h,
        .dilation_w = win->dilation_w,
        .pad_top = (win->kernel_h - 1) * win->dilation_h - win->pad_top,
        .pad_left = (win->kernel_w - 1) * win->dilation_w - win->pad_left,
    };
}

void mct_depthwise_conv_2d_grad_input_s8(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *w,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int32_t *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    mct_gradients result = {&writer, p->dx.c, dx};
    const mct_depthwise depthwise = {
        .from = p->dy,
        .rows = p->dx.h,
        .columns = p->dx.w,
        .window = mct_transposed(&p->window),
        .upsample_h = p->window.stride_h,
        .upsample_w = p->window.stride_w,
        .flipped = 1,
        .x = dy,
        .w = w,
        .take = mct_take_gradients,
        .result = &result,
    };
    const int fits = p->dx.c == p->dy.c && mct_depthwise_fits(&depthwise);
    if (dy == dx && !(fits && mct_depthwise_is_whole(&depthwise))) {
        mct_depthwise_grad_in_place(&p->dx, &p->window, w, dx, (int8_t *)scratch, &writer);
    } else if (fits) {
        mct_depthwise_run(&depthwise);
    } else {
        for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
            mct_depthwise_sums(p, position, dy, w, scratch);
            const int32_t first = position * p->dx.c;
            mct_gradient_write_s8(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
