/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"
#include "mct_tiled_plane.h"
#include "mct_tiled_requantize.h"

/* Whether the planes' way leads there. */
static int mct_depthwise_begin(const mct_depthwise_conv_2d_s8_params *p, mct_tiled_plane *plane) {
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
    return p->x.c == p->y.c && win->dilation_w == 1 && mct_tiled_plane_fits(plane);
}

/* The elements i, i + step …, of channel c. Apart from the loop that made the sums, so that both have all
 * registers. */
static MCT_APART void mct_depthwise_store(const mct_tiled_output *out,
                                          const mct_tiled_channel *channel, int32_t c,
                                          const int32_t *sums, int32_t count, int32_t i,
                                          int32_t step) {
    const mct_tiled_channel one = *channel;
    const int32_t low = out->low, *end = sums + count;
    const uint32_t span = out->span;
    int8_t *y = out->y + i;
    if (one.bits == 0 || out->mask != NULL) {
        for (; sums < end; sums++, i += step) {
            mct_tiled_store(out, &one, c, *sums, i);
        }
        return;
    }
    for (; sums + 1 < end; sums += 2) {
        *y = mct_tiled_short(&one, low, span, sums[0]);
        y += step;
        *y = mct_tiled_short(&one, low, span, sums[1]);
        y += step;
    }
    if (sums < end) {
        *y = mct_tiled_short(&one, low, span, *sums);
    }
}

static MCT_APART void mct_depthwise_planes(const mct_depthwise_conv_2d_s8_params *p,
                                           mct_tiled_plane *plane, const int8_t *x, const int8_t *w,
                                           const int32_t *b, const mct_tiled_output *out) {
    const int32_t channels = p->y.c, taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t c = 0; c < channels; c++) {
        const mct_tiled_channel channel = mct_tiled_channel_of(out->q, b[c], c, taps);
        mct_tiled_plane_take(plane, x + c, w + c, channels, b[c]);
        int32_t i = c;
        for (int32_t n; (n = mct_tiled_plane_next(plane)) > 0; i += n * channels) {
            mct_depthwise_store(out, &channel, c, plane->sums, n, i, channels);
        }
    }
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    mct_tiled_plane plane;
    if (!mct_depthwise_begin(p, &plane)) {
        mct_depthwise_any(p, x, w, b, y, mask, scratch);
        return;
    }
    const mct_tiled_output out =
        mct_tiled_output_of(&p->requantize, p->y.h * p->y.w * p->y.c, y, mask);
    mct_depthwise_planes(p, &plane, x, w, b, &out);
}
