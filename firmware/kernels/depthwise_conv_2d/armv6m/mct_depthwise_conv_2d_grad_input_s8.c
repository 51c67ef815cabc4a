/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_gradient.h"
#include "mct_armv6m_plane.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_grad_s8.h"
/* what follows takes its types from the one above */
#include "mct_depthwise_grad_in_place.h"
#include "mct_tiled.h"
#include "mct_window.h"

/* The convolution of dy, whose rows and columns lie a stride apart, with the window turned. Whether the
 * planes' way leads there. */
static int mct_grad_begin(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                          mct_armv6m_plane *plane) {
    const mct_window *win = &p->window;
    plane->pixel = p->dy.c;
    plane->h = p->dy.h;
    plane->w = p->dy.w;
    plane->spread_h = win->stride_h;
    plane->spread_w = win->stride_w;
    plane->fill = 0;
    plane->kernel_h = win->kernel_h;
    plane->kernel_w = win->kernel_w;
    plane->dilation_h = win->dilation_h;
    plane->stride_h = plane->stride_w = 1;
    plane->pad_top = (win->kernel_h - 1) * win->dilation_h - win->pad_top;
    plane->pad_left = win->kernel_w - 1 - win->pad_left;
    plane->rows = p->dx.h;
    plane->columns = p->dx.w;
    return p->dy.c == p->dx.c && win->dilation_w == 1 && mct_armv6m_plane_fits(plane);
}

static MCT_APART void mct_grad_planes(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                      mct_armv6m_plane *plane, const int8_t *dy, const int8_t *w,
                                      mct_gradient_writer *writer, int8_t *dx) {
    const int32_t channels = p->dx.c, last = p->window.kernel_h * p->window.kernel_w - 1;
    for (int32_t c = 0; c < channels; c++) {
        const mct_armv6m_factor factor = mct_armv6m_factor_of(writer, c);
        int32_t i = c;
        mct_armv6m_plane_take(plane, dy + c, w + last * channels + c, -channels, 0);
        for (int32_t n; (n = mct_armv6m_plane_next(plane)) > 0; i += n * channels) {
            mct_armv6m_round_sums(writer, plane->sums, n, &factor, c, 0, i, channels, dx);
        }
    }
}

/* An element, by the windows that read its pixel. */
static int32_t mct_grad_sum(const mct_depthwise_conv_2d_grad_input_s8_params *p, const int8_t *dy,
                            const int8_t *w, int32_t pixel, int32_t c) {
    const int32_t multiplier = p->dy.c / p->dx.c;
    int32_t sum = 0;
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t from =
            mct_window_source_2d(&p->window, &p->dy, pixel / p->dx.w, pixel % p->dx.w, tap);
        const int8_t *dys = dy + from * p->dy.c + c * multiplier;
        const int8_t *ws = w + tap * p->dy.c + c * multiplier;
        for (int32_t m = 0; from >= 0 && m < multiplier; m++) {
            sum += dys[m] * ws[m];
        }
    }
    return sum;
}

void mct_depthwise_conv_2d_grad_input_s8(const mct_depthwise_conv_2d_grad_input_s8_params *p,
                                         const mct_step *step, const int8_t *dy,
                                         const mct_exponent *dy_exponent, const int8_t *w,
                                         const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                         int32_t *scratch) {
    mct_armv6m_plane plane;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    if (mct_grad_begin(p, &plane)) {
        mct_grad_planes(p, &plane, dy, w, &writer, dx);
    } else if (dy == dx) {
        mct_depthwise_grad_in_place(&p->dx, &p->window, w, dx, (int8_t *)scratch, &writer);
    } else {
        for (int32_t pixel = 0, i = 0; pixel < p->dx.h * p->dx.w; pixel++) {
            for (int32_t c = 0; c < p->dx.c; c++, i++) {
                mct_gradient_put_s8(&writer, mct_grad_sum(p, dy, w, pixel, c), c, i, dx + i);
            }
        }
    }
    mct_gradient_end(&writer, 7);
}
