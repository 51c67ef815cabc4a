/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_scale_sums.h"

#include "mct_fixedpoint.h"

void mct_scale_sums_s8(const mct_scale_sums_s8_params *p, const int32_t *sums,
                       const mct_exponent *exponent, int8_t *y) {
    const mct_requantize *q = &p->requantize;
    const int32_t by = mct_clamp(exponent->now, 0, p->exponent_limit);
    for (int32_t i = 0; i < p->positions * p->channels; i++) {
        const int32_t m = q->per_channel ? i % p->channels : 0;
        const int32_t shift = mct_max(q->shift[m] - by, -31);
        const int32_t scaled = q->rounds_once
                                   ? mct_requantize_once_q31(sums[i], q->mult_q31[m], shift)
                                   : mct_requantize_q31(sums[i], q->mult_q31[m], shift);
        y[i] = (int8_t)mct_clamp(scaled + q->zero_point, q->low, q->high);
    }
}
