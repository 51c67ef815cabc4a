/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_depthwise_conv_2d_grad_input_<type>. */
#include "mct_depthwise_grad_in_place.h"
#include "mct_window.h"

void MCT_NAME(mct_depthwise_conv_2d_grad_input)(
    const MCT_PARAMS(mct_depthwise_conv_2d_grad_input) *p, const mct_step *step, const MCT_GRAD *dy,
    const mct_exponent *dy_exponent, const int8_t *w, const uint8_t *mask, mct_exponent *exponent,
    MCT_GRAD *dx, MCT_ACC *scratch) {
    const mct_window *win = &p->window;
    const int32_t multiplier = p->dy.c / p->dx.c;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    if (dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, win, w, dx, (MCT_GRAD *)(void *)scratch, &writer);
        mct_gradient_end(&writer, MCT_GRAD_BITS);
        return;
    }
    for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
        for (int32_t i = 0; i < p->dx.c; i++) {
            scratch[i] = 0;
        }
        for (int32_t tap = 0; tap < win->kernel_h * win->kernel_w; tap++) {
            const int32_t from =
                mct_window_source_2d(win, &p->dy, position / p->dx.w, position % p->dx.w, tap);
            if (from < 0) {
                continue;
            }
            const MCT_GRAD *dys = dy + from * p->dy.c;
            const int8_t *ws = w + tap * p->dy.c;
            for (int32_t i = 0; i < p->dx.c; i++) {
                for (int32_t m = 0; m < multiplier; m++) {
                    scratch[i] += (MCT_ACC)(*dys++ * *ws++);
                }
            }
        }
        const int32_t first = position * p->dx.c;
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->dx.c, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
