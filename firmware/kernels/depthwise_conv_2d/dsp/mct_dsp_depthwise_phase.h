/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a depthwise convolution's input, as depthwise convolutions of the output's gradient.
 *
 * A row of dx whose number is `row` modulo the stride takes the taps k, k + stride … of the kernel, k =
 * (row + pad) % stride, from neighbouring rows of dy; so with columns. Each pair of such numbers is a
 * phase: a convolution of stride 1 with a part of the kernel, turned round. */
#ifndef MCT_DSP_DEPTHWISE_PHASE_H
#define MCT_DSP_DEPTHWISE_PHASE_H

#include "mct_dsp_depthwise.h"
#include "mct_types.h"

/* The gradient dx, and what a phase writes of it. */
typedef struct {
    const mct_shape *dx;
    int32_t row, column;           /* the first */
    int32_t row_step, column_step; /* to the next ones */
} mct_depthwise_target;

/* Elements of dx in whose channels sums belong, `step` after each other. */
typedef struct {
    int32_t first, step, count;
} mct_depthwise_place;

/* Those of the strip's row `row`; or of all rows, if these are mct_depthwise_is_whole. */
mct_depthwise_place mct_depthwise_place_of(const mct_depthwise_target *to,
                                           const mct_depthwise_block *b, int32_t row);

/* Whether the strip's rows lie behind each other in dx. */
int mct_depthwise_is_whole(const mct_depthwise_target *to, const mct_depthwise_block *b);

/* Sets what is the phase's own; 0: it has no cut, or dx has no such rows or columns. */
int mct_depthwise_phase(const mct_shape *dx, const mct_window *win, const int8_t *w, int32_t row,
                        int32_t column, mct_depthwise *d);

/* Whether all phases have a cut: those of a window without dilation, and of one channel for each. */
int mct_depthwise_has_phases(const mct_shape *dx, const mct_window *win, const int8_t *w,
                             mct_depthwise *d);

/* Runs all phases; block->d has what is the same for them, and from: dy. 0: there is one without a cut.
 * Inline, since the stack is deep where gradients are written. */
static inline __attribute__((always_inline)) int
mct_depthwise_gather(const mct_window *win, const int8_t *w, mct_depthwise_target *to,
                     mct_depthwise_block *block, mct_depthwise_begin *begin,
                     mct_depthwise_take *take, void *result) {
    if (!mct_depthwise_has_phases(to->dx, win, w, &block->d)) {
        return 0;
    }
    to->row_step = win->stride_h;
    to->column_step = win->stride_w;
    for (int32_t phase = 0; phase < win->stride_h * win->stride_w; phase++) {
        to->row = phase / win->stride_w;
        to->column = phase % win->stride_w;
        if (mct_depthwise_phase(to->dx, win, w, to->row, to->column, &block->d)) {
            mct_depthwise_run(block, begin, take, result);
        }
    }
    return 1;
}

#endif
