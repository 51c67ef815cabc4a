/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_grad_s8.h"
#include "mct_helium_depthwise.h"
#include "mct_helium_gradient.h"
#include "mct_window.h"

#include "mct_depthwise_grad_in_place.h"

static void mct_take_gathered(void *result, int32_t c, mct_helium_strip *s, int32_t row,
                              int32_t rows) {
    const int32_t channels = s->d->from->c, most = mct_strip_most_rows(s);
    for (int32_t n = 0; n < rows; n += most) {
        const int32_t some = mct_min(rows - n, most);
        const int32_t position = (row + n) * s->d->columns + s->column;
        mct_strip_sums(s, n, some);
        mct_helium_write_channel(result, s->sums, c, position * channels + c, channels,
                                 some * s->columns);
    }
}

/* The sums of a position, for any window and channel multiplier. */
static inline void mct_position_sums(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                     int32_t position, const int8_t *dy, const int8_t *w,
                                     int32_t *sums) {
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
    mct_helium_writer to = {&writer, dx, 0};
    const mct_helium_depthwise d = {
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
        .x = dy,
        .w = w,
        .aside = dy == dx ? (int8_t *)scratch : NULL,
    };
    if (p->dx.c == p->dy.c && win->dilation_h == 1 && win->dilation_w == 1 &&
        mct_helium_has_strips(&d)) {
        mct_helium_depthwise_run(&d, mct_take_gathered, &to);
    } else if (dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, win, w, dx, (int8_t *)scratch, &writer);
    } else {
        for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
            mct_position_sums(p, position, dy, w, scratch);
            const int32_t first = position * p->dx.c;
            mct_gradient_write_s8(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_helium_writer_end(&to);
}
