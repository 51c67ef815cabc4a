/* SPDX-License-Identifier: Apache-2.0 */
/* Reciprocal square roots in integers. */
#ifndef MCT_ROOT_H
#define MCT_ROOT_H

#include "mct_fixedpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1 / sqrt(a) in Q2.29 for a in Q0.31, a >= 1/4: a straight line, then Newton's method. */
static inline int32_t mct_reciprocal_root(int32_t a) {
    int32_t y = 1145023540 - mct_high_mul(654299166, a);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t square = (int32_t)(((int64_t)mct_high_mul(y, a) * y) >> 28);
        y += mct_high_mul(y, (1 << 30) - square);
    }
    return y;
}

#ifdef __cplusplus
}
#endif

#endif
