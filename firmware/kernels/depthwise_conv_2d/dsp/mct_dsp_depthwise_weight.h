/* SPDX-License-Identifier: Apache-2.0 */
/* The weight gradient of a depthwise convolution: sums[tap] over positions of dy * (x - zero_point), four
 * channels at a time.
 *
 * Each channel's dy and x lie in planes of its own, as int16, so that two positions are one instruction. With
 * stride s, x has s * s planes: those of every s-th row and column from each of the first s on. A tap reads
 * one of them, shifted by whole rows and columns; and where rows of dy end in zeros, and are as long as those
 * of x, all rows are one. */
#ifndef MCT_DSP_DEPTHWISE_WEIGHT_H
#define MCT_DSP_DEPTHWISE_WEIGHT_H

#include "mct_types.h"

/* What is trained: as the parameters of mct_depthwise_conv_2d.h. */
typedef struct {
    const mct_shape *x, *dy;
    const mct_window *window;
    int32_t zero_point;
    int32_t count;
    const int16_t *x_columns, *channels;
    const int8_t *x_values, *dy_values;
} mct_depthwise_weights;

/* Takes the sums of `taps` taps, tap, tap + step …, of the j-th channel that is trained. */
typedef void mct_depthwise_weight_take(void *result, int32_t j, int32_t tap, int32_t step,
                                       int32_t taps, const int32_t *sums);

/* Any window, stride and dilation; dilations, and windows that are wider than 28, are slow. */
void mct_depthwise_weight_run(const mct_depthwise_weights *w, mct_depthwise_weight_take *take,
                              void *result);

#endif
