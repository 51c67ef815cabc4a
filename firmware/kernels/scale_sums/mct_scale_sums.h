/* SPDX-License-Identifier: Apache-2.0 */
/* A classifier's int32 sums as int8, their scale a power of two that training chooses.
 *
 * y = clamp(sums * mult_q31[c] * 2^(shift[c] - exponent - 31) + zero_point, low, high), rounded as
 * mct_requantize says. exponent: `now`, held in 0 to exponent_limit; shift[c] - exponent_limit >=
 * -31 where mult_q31[c] is not 0.
 *
 * sums, y: [positions][channels]; y may not be sums. */
#ifndef MCT_SCALE_SUMS_H
#define MCT_SCALE_SUMS_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t positions, channels;
    mct_requantize requantize;
    int32_t exponent_limit;
} mct_scale_sums_s8_params;

void mct_scale_sums_s8(const mct_scale_sums_s8_params *p, const int32_t *sums,
                       const mct_exponent *exponent, int8_t *y);

#ifdef __cplusplus
}
#endif

#endif
