/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a row in vectors, even and odd lanes apart, as products are 64 bits wide. */
#ifndef MCT_LAYER_NORM_LANES_H
#define MCT_LAYER_NORM_LANES_H

#include "mct_layer_norm_row.h"
#include "mct_simd.h"

typedef struct {
    mct_v64 even, odd;
} mct_v_wide;

static inline mct_v64 mct_v_all64(int64_t x) {
    return x - (mct_v64){0};
}

static inline mct_v_wide mct_v_products(mct_v32 a, mct_v32 b) {
    return (mct_v_wide){mct_v_mul_even(a, b), mct_v_mul_even(mct_v_odd(a), mct_v_odd(b))};
}

static inline mct_v_wide mct_v_shifted(mct_v_wide v, int32_t bits) {
    const mct_v64 all = mct_v_all64(bits);
    return (mct_v_wide){mct_v_shift_right64(v.even, all), mct_v_shift_right64(v.odd, all)};
}

/* int32 of each. */
static inline mct_v32 mct_v_narrow(mct_v_wide v) {
    return mct_v_interleave(v.even, v.odd);
}

/* mct_normalized */
static inline mct_v32 mct_v_normalized(const mct_layer_norm_row *row, mct_v32 x) {
    const mct_v32 difference = row->channels * x - row->sum;
    return mct_v_narrow(
        mct_v_shifted(mct_v_products(difference, mct_v_all(row->root)), row->half - 1));
}

#endif
