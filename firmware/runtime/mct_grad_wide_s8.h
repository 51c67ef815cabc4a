/* SPDX-License-Identifier: Apache-2.0 */
/* Types of a gradient kernel body for int8 gradients of layers so large that sums can exceed int32:
 * they are exact in int64, and then saturate. Where they cannot exceed it, mct_grad_s8.h has the
 * same bits. The generator chooses (bounds in docs/numerics.md). */
#ifndef MCT_GRAD_TYPES_H
#define MCT_GRAD_TYPES_H

#include <string.h>

#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_update.h"

#define MCT_NAME(name) name##_wide_s8
#define MCT_PARAMS(name) name##_wide_s8_params
#define MCT_GRAD int8_t
#define MCT_ACC int64_t
#define MCT_GRAD_BITS 7
#define MCT_DROPPED_BITS MCT_DROPPED_BITS_S8
#define MCT_UPDATE_ROW(updater, c, sums, first, count)                                             \
    mct_update_row_s8(updater, c, mct_saturated(sums, count), first, count)
#define MCT_UPDATE_CHANNELS(updater, sums, first, count)                                           \
    mct_update_channels_s8(updater, mct_saturated(sums, count), first, count)
#define MCT_NARROW(sums, count) mct_saturated(sums, count)
#define MCT_ACCUMULATE(p, step, sums, first, count, total)                                         \
    mct_accumulate_s32(step, mct_saturated(sums, count), count, total)
#define mct_gradient_write_wide_s8(writer, sums, first, channels, dx)                              \
    mct_gradient_write_s8(writer, mct_saturated(sums, channels), first, channels, dx)

/* The sums as int32, where they were. */
static inline int32_t *mct_saturated(int64_t *sums, int32_t count) {
    int32_t *narrow = (int32_t *)(void *)sums;
    for (int32_t i = 0; i < count; i++) {
        const int32_t sum = mct_saturate32(sums[i]);
        memcpy(&narrow[i], &sum, sizeof sum);
    }
    return narrow;
}

#endif
