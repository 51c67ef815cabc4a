/* SPDX-License-Identifier: Apache-2.0 */
/* A depthwise convolution, sum by sum: what the plain body is, and what others leave to it. */
#ifndef MCT_DEPTHWISE_ANY_H
#define MCT_DEPTHWISE_ANY_H

#include "mct_depthwise_apart.h"
#include "mct_depthwise_conv_2d_sum.h"
#include "mct_fixedpoint.h"

/* Every step-th number, `count` of them. */
static inline void mct_set_aside(const int8_t *from, int32_t step, int32_t count, int8_t *to) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = from[i * step];
    }
}

/* Where the result takes the place of the input: channel by channel, each of which is set aside before.
 * For any window that keeps an image's size; plane: one channel. Not inlined: with the other loop in one
 * function, a Cortex-M0+ has too few registers for either. */
static __attribute__((noinline)) void
mct_depthwise_in_place(const mct_depthwise_conv_2d_s8_params *p, const int8_t *w, const int32_t *b,
                       int8_t *y, uint8_t *mask, int8_t *plane) {
    const mct_shape shape = {p->y.h, p->y.w, 1};
    const int32_t positions = p->y.h * p->y.w;
    for (int32_t i = 0; mask != NULL && i < (positions * p->y.c + 7) / 8; i++) {
        mask[i] = 0;
    }
    for (int32_t c = 0; c < p->y.c; c++) {
        mct_set_aside(y + c, p->y.c, positions, plane);
        int32_t i = c;
        for (int32_t row = 0; row < p->y.h; row++) {
            for (int32_t column = 0; column < p->y.w; column++, i += p->y.c) {
                uint8_t passes = 0; /* bit 0, as if this were a tensor of one element */
                const int32_t acc = b[c] + mct_depthwise_sum(&shape, &p->window, p->x_zero_point,
                                                             plane, w + c, p->y.c, row, column);
                mct_requantize_store(&p->requantize, acc, c, 0, y + i, &passes);
                if (mask != NULL) {
                    mask[i >> 3] = (uint8_t)(mask[i >> 3] | passes << (i & 7));
                }
            }
        }
    }
}

/* For any window and channel multiplier; y may be x as in mct_depthwise_conv_2d.h. */
static inline void mct_depthwise_any(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                                     const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                                     int8_t *scratch) {
    if (x == y) {
        mct_depthwise_in_place(p, w, b, y, mask, scratch);
    } else {
        mct_depthwise_apart(p, x, w, b, y, mask);
    }
}

#endif
