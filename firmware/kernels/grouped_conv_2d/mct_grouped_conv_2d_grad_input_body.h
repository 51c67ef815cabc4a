/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_grouped_conv_2d_grad_input_<type>: mct_grad_<type>.h defines the names in capitals. */
#include "mct_window.h"

/* The products of one tap, of all groups. */
static void mct_grouped_add(const MCT_PARAMS(mct_grouped_conv_2d_grad_input) *p, const MCT_GRAD *dy,
                            const int8_t *w, MCT_ACC *sums) {
    const int32_t ins = p->dx.c / p->groups, outs = p->dy.c / p->groups;
    const int32_t w_row = p->window.kernel_h * p->window.kernel_w * ins;
    for (int32_t group = 0; group < p->groups; group++, sums += ins) {
        for (int32_t o = 0; o < outs; o++, dy++, w += w_row) {
            for (int32_t i = 0; i < ins; i++) {
                sums[i] += (MCT_ACC)(*dy * w[i]);
            }
        }
    }
}

void MCT_NAME(mct_grouped_conv_2d_grad_input)(const MCT_PARAMS(mct_grouped_conv_2d_grad_input) *p,
                                              const mct_step *step, const MCT_GRAD *dy,
                                              const mct_exponent *dy_exponent, const int8_t *w,
                                              const uint8_t *mask, mct_exponent *exponent,
                                              MCT_GRAD *dx, MCT_ACC *scratch) {
    const mct_window *win = &p->window;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t iy = 0; iy < p->dx.h; iy++) {
        for (int32_t ix = 0; ix < p->dx.w; ix++) {
            for (int32_t i = 0; i < p->dx.c; i++) {
                scratch[i] = 0;
            }
            for (int32_t tap = 0; tap < win->kernel_h * win->kernel_w; tap++) {
                const int32_t from = mct_window_source_2d(win, &p->dy, iy, ix, tap);
                if (from >= 0) {
                    mct_grouped_add(p, dy + from * p->dy.c, w + tap * (p->dx.c / p->groups),
                                    scratch);
                }
            }
            const int32_t first = (iy * p->dx.w + ix) * p->dx.c;
            MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
