/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates and their schedules, in integers: the same bits on the host and on every chip. */
#ifndef MCT_SCHEDULE_H
#define MCT_SCHEDULE_H

#include <stdint.h>

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rate = mult_q31 * 2^(shift - 31); mult_q31 is 0 or in 2^30 … 2^31 - 1 */
typedef struct {
    int32_t mult_q31;
    int32_t shift;
} mct_learning_rate;

/* The rate of a number that the compiler knows, 2^-128 <= number < 2^31 or 0: MCT_RATE(0.03), the same
 * bits as on the host. The compiler computes it; the program has integers. In C it also initializes
 * static objects (gcc: without -pedantic). Not for -fsingle-precision-constant. */
#ifdef __cplusplus
#define MCT_RATE(number)                                                                           \
    mct_learning_rate {                                                                            \
        MCT_RATE_MULT_Q31((number) * 1.0), MCT_RATE_SHIFT((number) * 1.0)                          \
    }
#else
#define MCT_RATE(number)                                                                           \
    ((mct_learning_rate){MCT_RATE_MULT_Q31((number) * 1.0), MCT_RATE_SHIFT((number) * 1.0)})
#endif

/* How many powers of two, from 2^-128 to 2^31, are no larger than the number; 2^-n for n of them.
 * Powers of two and their products are exact in double precision. */
#define MCT_2_16 65536.0
#define MCT_2_32 (MCT_2_16 * MCT_2_16)
#define MCT_2_64 (MCT_2_32 * MCT_2_32)
#define MCT_COUNT_4(x, p)                                                                          \
    (((x) >= (p)) + ((x) >= (p) * 2.0) + ((x) >= (p) * 4.0) + ((x) >= (p) * 8.0))
#define MCT_COUNT_16(x, p)                                                                         \
    (MCT_COUNT_4(x, p) + MCT_COUNT_4(x, (p) * 16.0) + MCT_COUNT_4(x, (p) * 256.0) +                \
     MCT_COUNT_4(x, (p) * 4096.0))
#define MCT_COUNT_160(x)                                                                           \
    (MCT_COUNT_16(x, 1.0 / MCT_2_64 / MCT_2_64) +                                                  \
     MCT_COUNT_16(x, MCT_2_16 / MCT_2_64 / MCT_2_64) +                                             \
     MCT_COUNT_16(x, 1.0 / MCT_2_64 / MCT_2_32) +                                                  \
     MCT_COUNT_16(x, MCT_2_16 / MCT_2_64 / MCT_2_32) + MCT_COUNT_16(x, 1.0 / MCT_2_64) +           \
     MCT_COUNT_16(x, MCT_2_16 / MCT_2_64) + MCT_COUNT_16(x, 1.0 / MCT_2_32) +                      \
     MCT_COUNT_16(x, 1.0 / MCT_2_16) + MCT_COUNT_16(x, 1.0) + MCT_COUNT_16(x, MCT_2_16))
#define MCT_HALVED_2(x, p) (((x) >= (p) ? 0.5 : 1.0) * ((x) >= (p) * 2.0 ? 0.5 : 1.0))
#define MCT_HALVED_4(x, p) (MCT_HALVED_2(x, p) * MCT_HALVED_2(x, (p) * 4.0))
#define MCT_HALVED_16(x, p)                                                                        \
    (MCT_HALVED_4(x, p) * MCT_HALVED_4(x, (p) * 16.0) * MCT_HALVED_4(x, (p) * 256.0) *             \
     MCT_HALVED_4(x, (p) * 4096.0))
#define MCT_HALVED_160(x)                                                                          \
    (MCT_HALVED_16(x, 1.0 / MCT_2_64 / MCT_2_64) *                                                 \
     MCT_HALVED_16(x, MCT_2_16 / MCT_2_64 / MCT_2_64) *                                            \
     MCT_HALVED_16(x, 1.0 / MCT_2_64 / MCT_2_32) *                                                 \
     MCT_HALVED_16(x, MCT_2_16 / MCT_2_64 / MCT_2_32) * MCT_HALVED_16(x, 1.0 / MCT_2_64) *         \
     MCT_HALVED_16(x, MCT_2_16 / MCT_2_64) * MCT_HALVED_16(x, 1.0 / MCT_2_32) *                    \
     MCT_HALVED_16(x, 1.0 / MCT_2_16) * MCT_HALVED_16(x, 1.0) * MCT_HALVED_16(x, MCT_2_16))
/* number * 2^(31 - shift) is in 2^30 … 2^31; rounded, halves up. */
#define MCT_RATE_ROUNDED(x) ((x) * MCT_HALVED_160(x) * (2147483648.0 * MCT_2_64 * MCT_2_64) + 0.5)
#define MCT_RATE_MULT_Q31(x)                                                                       \
    MCT_CAST(int32_t, MCT_RATE_ROUNDED(x) < 2147483647.0 ? MCT_RATE_ROUNDED(x) : 2147483647.0)
#define MCT_RATE_SHIFT(x) MCT_CAST(int32_t, (x) > 0.0 ? MCT_COUNT_160(x) - 128 : 0)

/* rate * fraction / 2^31 for 0 <= fraction <= 2^31 - 1. */
mct_learning_rate mct_rate_times(mct_learning_rate rate, int32_t fraction_q31);

/* Cosine with warm-up: rises linearly over the first `warmup` steps, then falls along half a cosine
 * to 0 at `total`. step counts from 0. 0 <= warmup <= total, step < total < 2^31. */
mct_learning_rate mct_schedule_cosine(mct_learning_rate base, uint32_t step, uint32_t warmup,
                                      uint32_t total);

#ifdef __cplusplus
}
#endif

#endif
