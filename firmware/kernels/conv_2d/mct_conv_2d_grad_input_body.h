/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_conv_2d_grad_input_<type>: mct_grad_<type>.h defines the names in capitals. */
#include "mct_window.h"

/* Puts what is trained in the place of the weight's own columns in the sums. Each partial sum is one of
 * products of either, so none is larger than the operator's bound. */
static void mct_add_trained(const MCT_GRAD *dy, const int8_t *w, const int8_t *trained,
                            int32_t outs, int32_t taps, int32_t ins,
                            const mct_trained_columns *columns, MCT_ACC *sums) {
    for (int32_t j = 0; j < columns->columns; j++) {
        const int32_t channel = columns->channels[j];
        const int8_t *before = w + channel, *now = trained + j;
        MCT_ACC sum = sums[channel];
        for (int32_t o = 0; o < outs; o++) {
            sum += (MCT_ACC)(dy[o] * (*now - *before));
            before += taps * ins;
            now += taps * columns->columns;
        }
        sums[channel] = sum;
    }
}

static void mct_add_rows(const MCT_GRAD *dy, const int8_t *w, int32_t outs, int32_t w_row,
                         int32_t ins, MCT_ACC *sums) {
    for (int32_t o = 0; o < outs; o++) {
        const int8_t *ws = w + o * w_row;
        for (int32_t i = 0; i < ins; i++) {
            sums[i] += (MCT_ACC)(dy[o] * ws[i]);
        }
    }
}

void MCT_NAME(mct_conv_2d_grad_input)(const MCT_PARAMS(mct_conv_2d_grad_input) *p,
                                      const mct_step *step, const MCT_GRAD *dy,
                                      const mct_exponent *dy_exponent, const int8_t *w,
                                      const MCT_GRAD *addend, const mct_exponent *addend_exponent,
                                      const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                      MCT_ACC *scratch, const int8_t *trained) {
    const mct_window *win = &p->window;
    const int32_t taps = win->kernel_h * win->kernel_w;
    const int32_t columns = p->trained.columns;
    const int32_t frozen = p->trained.channels == NULL ? columns : 0;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    mct_gradient_add(&writer, &p->addend, addend, addend_exponent);
    for (int32_t iy = 0; iy < p->dx.h; iy++) {
        for (int32_t ix = 0; ix < p->dx.w; ix++) {
            for (int32_t i = 0; i < p->dx.c; i++) {
                scratch[i] = 0;
            }
            for (int32_t tap = 0; tap < taps; tap++) {
                const int32_t from = mct_window_source_2d(win, &p->dy, iy, ix, tap);
                if (from < 0) {
                    continue;
                }
                const MCT_GRAD *dys = dy + from * p->dy.c;
                const int8_t *ws = w + tap * p->dx.c;
                mct_add_rows(dys, ws + frozen, p->dy.c, taps * p->dx.c, p->dx.c - frozen,
                             scratch + frozen);
                if (frozen > 0) {
                    mct_add_rows(dys, trained + tap * columns, p->dy.c, taps * columns, columns,
                                 scratch);
                } else if (trained != NULL) {
                    mct_add_trained(dys, ws, trained + tap * columns, p->dy.c, taps, p->dx.c,
                                    &p->trained, scratch);
                }
            }
            const int32_t first = (iy * p->dx.w + ix) * p->dx.c;
            MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->dx.c, dx + first);
        }
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
