/* SPDX-License-Identifier: Apache-2.0 */
/* What mct_gradient_rescale_<type> and mct_gradient_add_<type> share. */
#include "mct_fixedpoint.h"

/* value times the stage's factor of channel c, with fraction bits. change: of the exponent. */
static inline int64_t mct_term(const mct_gradient_stage *stage, int32_t change, int32_t value,
                               int32_t c) {
    const int32_t m = stage->per_channel ? c : 0;
    return MCT_SCALED(value, stage->mult_q31[m], stage->shift[m] + change);
}

static inline int mct_passes(const uint8_t *mask, int32_t i) {
    return mask == NULL || ((mask[i >> 3] >> (i & 7)) & 1) != 0;
}

static inline MCT_GRAD mct_rounded(int64_t fraction, uint32_t key, int32_t i) {
    const int64_t limit = (INT64_C(1) << MCT_GRAD_BITS) - 1;
    const int64_t rounded = (fraction + mct_random16(key, (uint32_t)i)) >> MCT_FRACTION_BITS;
    return (MCT_GRAD)mct_clamp64(rounded, -limit, limit);
}
