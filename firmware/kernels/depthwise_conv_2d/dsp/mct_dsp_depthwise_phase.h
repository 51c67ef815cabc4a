/* The gradient of a depthwise convolution's input, as depthwise convolutions of the output's gradient.
 *
 * A row of dx whose number is `row` modulo the stride takes the taps k, k + stride … of the kernel, k =
 * (row + pad) % stride, from neighbouring rows of dy; so with columns. Each pair of such numbers is a
 * phase: a convolution of stride 1 with a part of the kernel, turned round. */
#ifndef MCT_DSP_DEPTHWISE_PHASE_H
#define MCT_DSP_DEPTHWISE_PHASE_H

#include "mct_dsp_depthwise.h"
#include "mct_types.h"

/* Sets what is the phase's own; 0: dx has no such rows or columns. */
int mct_depthwise_phase(const mct_shape *dx, const mct_window *win, const int8_t *w, int32_t row,
                        int32_t column, mct_depthwise *d);

/* Whether all phases have a cut: those of a window without dilation, and of one channel for each. Leaves
 * the last phase in d. */
int mct_depthwise_has_phases(const mct_shape *dx, const mct_window *win, const int8_t *w,
                             mct_depthwise *d);

#endif
