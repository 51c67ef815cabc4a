/* SPDX-License-Identifier: Apache-2.0 */
/* Types of a gradient kernel body for int8 gradients; see mct_grad_s16.h for the other. */
#ifndef MCT_GRAD_TYPES_H
#define MCT_GRAD_TYPES_H

#include "mct_gradient.h"
#include "mct_update.h"

#define MCT_NAME(name) name##_s8
#define MCT_PARAMS(name) name##_s8_params
#define MCT_GRAD int8_t
#define MCT_ACC int32_t
#define MCT_GRAD_BITS 7
#define MCT_BACK_BITS 15
#define MCT_DROPPED_BITS MCT_DROPPED_BITS_S8
#define MCT_SCALED(x, mult_q31, shift) mct_scale_to_fraction(x, mult_q31, mct_shift_right(shift))
#define MCT_UPDATE_ROW mct_update_row_s8
#define MCT_UPDATE_CHANNELS mct_update_channels_s8
#define MCT_UPDATE_BIASES mct_update_biases_s32
#define MCT_UPDATE_DIFFERENCES mct_update_biases_s16
#define MCT_NARROW(sums, count) (sums)
#define MCT_ACCUMULATE(p, step, sums, first, count, total)                                         \
    mct_accumulate_s32(step, sums, count, total)

#endif
