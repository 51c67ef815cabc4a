/* SPDX-License-Identifier: Apache-2.0 */
/* The image that the weight gradient of a convolution reads, as panels of positions by four channels. */
#ifndef MCT_DSP_WEIGHT_IMAGE_H
#define MCT_DSP_WEIGHT_IMAGE_H

#include "mct_dsp_panel.h"
#include "mct_fixedpoint.h"
#include "mct_window.h"

/* Output channels at a time, at most. */
#define MCT_WEIGHT_ROWS 16

typedef struct {
    const mct_shape *x, *dy;
    const mct_window *window;
    int32_t zero_point;
    const int8_t *values; /* from the first channel of the group on */
} mct_weight_image;

static __attribute__((noinline)) uint32_t mct_weight_part(const int8_t *row, int32_t columns) {
    return mct_load_part(row, columns);
}

/* mct_row_word in little code */
static inline uint32_t mct_weight_word(const int8_t *row, int32_t columns) {
    return columns == 4 ? mct_load32(row) : mct_weight_part(row, columns);
}

/* Whether each position reads its own pixel, and so positions lie next to each other. */
static inline int mct_weight_is_point(const mct_weight_image *image) {
    const mct_window *w = image->window;
    return (w->kernel_h | w->kernel_w | w->stride_h | w->stride_w) == 1 &&
           (w->pad_top | w->pad_left) == 0 && image->dy->w == image->x->w &&
           image->dy->h == image->x->h;
}

/* What the positions see through a tap in `columns` channels from i on. */
static inline void mct_weight_panel(const mct_weight_image *image, int32_t tap, int32_t i,
                                    int32_t columns, int32_t position, int32_t depth,
                                    uint32_t *to) {
    const mct_window *win = image->window;
    const int32_t channels = image->x->c, height = image->x->h, width = image->x->w;
    const uint32_t outside = (uint32_t)(uint8_t)image->zero_point * 0x01010101u;
    const uint32_t minus = mct_pair(-image->zero_point, -image->zero_point);
    const int8_t *x = image->values + i;
    int32_t k = 0;
    if (columns == 4 && depth >= 4 && mct_weight_is_point(image)) {
        const mct_tile_rows tile = {x + position * channels, channels, minus, to, depth / 4};
        mct_tile_rows_run(&tile);
        k = depth & ~3;
        to += 2 * k;
    }
    int32_t column = (position + k) % image->dy->w;
    const int32_t left = tap % win->kernel_w * win->dilation_w - win->pad_left;
    int32_t ix = column * win->stride_w + left;
    int32_t iy = (position + k) / image->dy->w * win->stride_h +
                 tap / win->kernel_w * win->dilation_h - win->pad_top;
    for (; k < depth; k += 4) {
        uint32_t words[4] = {outside, outside, outside, outside};
        for (int32_t n = 0; n < 4 && k + n < depth; n++) {
            if (iy >= 0 && iy < height && ix >= 0 && ix < width) {
                words[n] = mct_weight_word(x + (iy * width + ix) * channels, columns);
            }
            ix += win->stride_w;
            if (++column == image->dy->w) {
                column = 0;
                ix = left;
                iy += win->stride_h;
            }
        }
        mct_panel_quad(words[0], words[1], words[2], words[3], minus, to);
        to += 8;
    }
}

#endif
