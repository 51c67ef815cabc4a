/* SPDX-License-Identifier: Apache-2.0 */
/* Sums as a gradient, which a node writes channel by channel or position by position. */
#ifndef MCT_ARMV6M_GRADIENT_H
#define MCT_ARMV6M_GRADIENT_H

#include "mct_tiled_gradient.h"

/* What a channel's sums are scaled by, and those of the gradient that is added in the same rounding. */
typedef struct {
    mct_tiled_factor sum, addend;
} mct_armv6m_factor;

mct_armv6m_factor mct_armv6m_factor_of(const mct_gradient_writer *writer, int32_t c);

/* The elements i, i + step … of dx. channel_step: 1: the first sum is of channel c, each of the next
 * channel, with the next factor; 0: all are of channel c. */
void mct_armv6m_round_sums(mct_gradient_writer *writer, const int32_t *sums, int32_t count,
                           const mct_armv6m_factor *factor, int32_t c, int32_t channel_step,
                           int32_t i, int32_t step, int8_t *dx);

#endif
