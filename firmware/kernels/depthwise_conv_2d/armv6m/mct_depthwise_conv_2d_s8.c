/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_plane.h"
#include "mct_armv6m_scale.h"
#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"

/* Whether the planes' way leads there. */
static int mct_depthwise_begin(const mct_depthwise_conv_2d_s8_params *p, mct_armv6m_plane *plane) {
    const mct_window *win = &p->window;
    plane->pixel = p->x.c;
    plane->h = p->x.h;
    plane->w = p->x.w;
    plane->spread_h = plane->spread_w = 1;
    plane->fill = p->x_zero_point;
    plane->kernel_h = win->kernel_h;
    plane->kernel_w = win->kernel_w;
    plane->dilation_h = win->dilation_h;
    plane->stride_h = win->stride_h;
    plane->stride_w = win->stride_w;
    plane->pad_top = win->pad_top;
    plane->pad_left = win->pad_left;
    plane->rows = p->y.h;
    plane->columns = p->y.w;
    return p->x.c == p->y.c && win->dilation_w == 1 && mct_armv6m_plane_fits(plane);
}

static MCT_APART void mct_depthwise_planes(const mct_depthwise_conv_2d_s8_params *p,
                                           mct_armv6m_plane *plane, const int8_t *x,
                                           const int8_t *w, const int32_t *b,
                                           const mct_tiled_output *out) {
    const int32_t channels = p->y.c, taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t c = 0; c < channels; c++) {
        const mct_armv6m_scale scale = mct_armv6m_scale_of(&p->requantize, b[c], c, taps);
        const uint32_t start = mct_armv6m_begin(&scale, b[c]);
        int32_t i = c;
        mct_armv6m_plane_take(plane, x + c, w + c, channels, start);
        for (int32_t n; (n = mct_armv6m_plane_next(plane)) > 0; i += n * channels) {
            mct_armv6m_store_sums(out, plane->sums, n, &scale, c, 0, i, channels);
        }
    }
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    mct_armv6m_plane plane;
    if (!mct_depthwise_begin(p, &plane)) {
        mct_depthwise_any(p, x, w, b, y, mask, scratch);
        return;
    }
    const mct_tiled_output out =
        mct_armv6m_output_of(&p->requantize, p->y.h * p->y.w * p->y.c, y, mask);
    mct_depthwise_planes(p, &plane, x, w, b, &out);
}
