/* SPDX-License-Identifier: Apache-2.0 */
/* From int32 sums to int8, four at a time, with the bits of mct_requantize_q31.
 *
 * VQRDMULH is its first rounding. The second one, by n = -shift bits and halves away from zero, is
 * (v - (v < 0) + 2^(n-1)) >> n for n >= 1. Whatever else there is goes the portable way. */
#ifndef MCT_HELIUM_REQUANTIZE_H
#define MCT_HELIUM_REQUANTIZE_H

#include "mct_fixedpoint.h"
#include "mct_helium.h"

/* Where the results go: that of channel c at a position to y[position * channels + c]. */
typedef struct {
    const mct_requantize *q;
    const int32_t *b;
    int8_t *y;
    uint8_t *mask; /* cleared before, or NULL */
    int32_t channels;
} mct_helium_output;

/* Clears the mask. */
static inline mct_helium_output mct_helium_output_of(const mct_requantize *q, const int32_t *b,
                                                     int32_t positions, int32_t channels, int8_t *y,
                                                     uint8_t *mask) {
    if (mask != NULL) {
        memset(mask, 0, (size_t)((positions * channels + 7) / 8));
    }
    return (mct_helium_output){q, b, y, mask, channels};
}

/* Whether mct_helium_scaled is right for channel c. */
static inline int mct_helium_is_short(const mct_requantize *q, int32_t c) {
    const int32_t shift = q->shift[q->per_channel ? c : 0];
    return !q->rounds_once && shift < 0;
}

/* shift: negative in all lanes. */
static inline int32x4_t mct_helium_scaled(int32x4_t sums, int32x4_t mult_q31, int32x4_t shift) {
    const int32x4_t v = vqrdmulhq_s32(sums, mult_q31);
    return vrshlq_s32(vaddq_s32(v, vshrq_n_s32(v, 31)), shift);
}

/* The predicate's four lanes as bits 0 to 3. */
static inline uint32_t mct_helium_bits(mve_pred16_t lanes) {
    return ((uint32_t)lanes & 0x1111u) * 0x1248u >> 12 & 15u;
}

/* The sum of channel c as the element i, the portable way. */
static inline void mct_helium_store_one(const mct_helium_output *out, int32_t sum, int32_t c,
                                        int32_t i) {
    uint8_t passes = 0; /* bit 0, as if this were a tensor of one element */
    mct_requantize_store(out->q, sum, c, 0, out->y + i, &passes);
    if (out->mask != NULL) {
        out->mask[i >> 3] = (uint8_t)(out->mask[i >> 3] | passes << (i & 7));
    }
}

#endif
