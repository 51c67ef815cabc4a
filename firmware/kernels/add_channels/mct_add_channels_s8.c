/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_channels.h"

#include "mct_fixedpoint.h"

static inline int32_t mct_operand(const mct_channels_scaled *scaled, int32_t value,
                                  int32_t left_shift) {
    const int32_t shifted = (value - scaled->zero_point) * (1 << left_shift);
    return mct_requantize_q31(shifted, scaled->mult_q31, scaled->shift);
}

void mct_add_channels_s8(const mct_add_channels_s8_params *p, const int8_t *a, const int8_t *b,
                         int8_t *y, uint8_t *mask) {
    for (int32_t position = 0; position < p->positions; position++) {
        const int32_t first = position * p->channels;
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t sum = mct_operand(&p->a, a[first + c], p->left_shift) +
                                mct_operand(&p->b, b[c], p->left_shift);
            const int32_t scaled = mct_requantize_q31(sum, p->y.mult_q31, p->y.shift);
            mct_clamp_store(scaled + p->y.zero_point, p->low, p->high, first + c, y, mask);
        }
    }
}
