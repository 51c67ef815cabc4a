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
#define MCT_DROPPED_BITS MCT_DROPPED_BITS_S8
#define MCT_NARROW_SUM(sum) (sum)
#define MCT_UPDATE_ROW mct_update_row_s8
#define MCT_ACCUMULATE mct_accumulate_s32

#endif
