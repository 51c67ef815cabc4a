/* SPDX-License-Identifier: Apache-2.0 */
/* Types that kernels, runtime and generated code share. */
#ifndef MCT_TYPES_H
#define MCT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A conversion of numbers that is meant. C++ warns of casts as C writes them (-Wold-style-cast). */
#ifdef __cplusplus
#define MCT_CAST(type, value) static_cast<type>(value)
#else
#define MCT_CAST(type, value) ((type)(value))
#endif

/* 10000 * major + 100 * minor + patch of the mcutrain that these files are of. Models of one version
 * share them in one program; mct_state.h sees to it that others do not link. */
#define MCT_VERSION 100

/* What a step of training says of its sample; see mct_train in the model's header. */
typedef struct {
    int32_t loss_q16;
    int32_t prediction;
} mct_result;

/* An image: rows, columns, channels; channels lie next to each other. The batch is 1. */
typedef struct {
    int32_t h, w, c;
} mct_shape;

/* A sliding window. Padding on the bottom and the right follows from the output's shape. */
typedef struct {
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t dilation_h, dilation_w;
    int32_t pad_top, pad_left;
} mct_window;

/* int32 sums to int8: y = clamp(sum * mult_q31 * 2^(shift - 31) + zero_point, low, high).
 * rounds_once: 0 rounds twice as TFLite's convolutions do, 1 once as its fully connected layer. */
typedef struct {
    const int32_t *mult_q31;
    const int8_t *shift;
    int32_t per_channel; /* 1: a multiplier per channel, 0: one for all */
    int32_t rounds_once;
    int32_t zero_point;
    int32_t low, high;
} mct_requantize;

/* Columns of a weight that are trained: they lie in a tensor of their own, and what the weight has in
 * their place is not read. channels: which they are, ascending; NULL means the first ones. rows: of the
 * weight that scratch has room for, a multiple of 8. */
typedef struct {
    int32_t columns, rows;
    const int16_t *channels;
} mct_trained_columns;

/* A clamp mask has a bit per element, the lowest bit of each byte first: 1 where the value was within
 * the clamp's limits and its gradient passes. Unused bits of the last byte are 0. */

/* What a node may know of the training step that it runs in. */
typedef struct {
    uint32_t key;        /* of this step's random numbers */
    uint32_t update;     /* updates done before this one */
    uint32_t sample;     /* samples of this update done before this one */
    int32_t lr_mult_q31; /* learning rate = lr_mult_q31 * 2^(lr_shift - 31) */
    int32_t lr_shift;
} mct_step;

/* The power of two of a gradient tensor, and what was needed lately (MCT_NO_EXPONENT: nothing). */
typedef struct {
    int8_t now;    /* in use in this step */
    int8_t recent; /* largest needed since the history was last shifted */
    int8_t older;  /* largest needed in the window before that */
} mct_exponent;

#define MCT_NO_EXPONENT (-128)
#define MCT_EXPONENT_WINDOW 16u

#ifdef __cplusplus
}
#endif

#endif
