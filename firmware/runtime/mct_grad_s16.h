/* SPDX-License-Identifier: Apache-2.0 */
/* Types of a gradient kernel body for int16 gradients. Their sums can exceed int32. */
#ifndef MCT_GRAD_TYPES_H
#define MCT_GRAD_TYPES_H

#include "mct_gradient.h"
#include "mct_update.h"

#define MCT_NAME(name) name##_s16
#define MCT_PARAMS(name) name##_s16_params
#define MCT_GRAD int16_t
#define MCT_ACC int64_t
#define MCT_GRAD_BITS 15
#define MCT_BACK_BITS 8
#define MCT_DROPPED_BITS MCT_DROPPED_BITS_S16
#define MCT_SCALED(x, mult_q31, shift) mct_scale_reaching(x, mult_q31, shift, 0)
#define MCT_UPDATE_ROW mct_update_row_wide_s8
#define MCT_UPDATE_CHANNELS mct_update_channels_wide_s8
#define MCT_UPDATE_BIASES mct_update_biases_wide_s32
#define MCT_UPDATE_DIFFERENCES mct_update_biases_wide_s16
#define MCT_ACCUMULATE(p, step, sums, first, count, total)                                         \
    mct_accumulate_wide_s32(&(p)->sum, step, sums, first, count, total)

#endif
