/* SPDX-License-Identifier: Apache-2.0 */
/* From an int32 sum to int8 with the bits of mct_requantize_q31, by one product of 32 bits.
 *
 * sum * mult_q31 / 2^(31 + n), n = -shift, is sum * factor / 2^22 with factor = mult_q31 / 2^(n + 9),
 * rounded. What that and the two roundings can change is less than `doubt` / 2 (in units of 2^-22),
 * so the whole part is right unless the fraction is that close to 0: then, and for shifts that are not
 * usual, the sum goes the long way. A sum of 2^(n + 9) or more is beyond int8, since a multiplier is
 * at least 2^30. */
#ifndef MCT_ARMV6M_SCALE_H
#define MCT_ARMV6M_SCALE_H

#include "mct_armv6m.h"
#include "mct_tiled_requantize.h"

#define MCT_ARMV6M_BITS 22
#define MCT_ARMV6M_MOST_SHIFT 12

/* Sums are `middle` more than they are, so that one comparison says whether they are small. */
typedef struct {
    uint32_t limit; /* 2 * middle; 0: all go the long way */
    uint32_t factor;
    uint32_t start; /* of a sum -middle, with the zero point less `low`, and half of `doubt` */
    uint32_t doubt; /* in units of 2^-32 */
} mct_armv6m_scale;

/* Sums on their way, from `sums` to `end`. */
typedef struct {
    const int32_t *sums;
    const mct_armv6m_scale *scale; /* of the next one */
    int8_t *y;                     /* where it goes */
    uint32_t span;                 /* high - low */
    int32_t low;
    const int32_t *end;
    int32_t scale_step; /* bytes from one scale to the next, less its size */
    int32_t y_step;
    const int8_t *first; /* element of y */
    uint8_t *mask;       /* all ones before, or NULL */
} mct_armv6m_line;

/* Scales them until one must go the long way, which it has passed; but y waits for it. Returns whether
 * there is one. At least one sum. */
int32_t mct_armv6m_scale_line(mct_armv6m_line *line);

/* A sum that begins with a bias: `middle` more. Modulo 2^32, as all that is added to it. */
static inline uint32_t mct_armv6m_begin(const mct_armv6m_scale *scale, int32_t bias) {
    return (uint32_t)bias + (scale->limit >> 1);
}

/* Of a channel whose weights are next to nothing, all of whose sums are within bias +- around: one value
 * for all. The comparison with 2^32 - 1 takes whatever an int32 can be but the lowest, for which the
 * element clamps, and one above `high` would seem to be below. */
static inline mct_armv6m_scale mct_armv6m_constant_of(const mct_requantize *q, int32_t bias,
                                                      int32_t c, int32_t around) {
    const int32_t first = bias < INT32_MIN + around ? INT32_MIN : bias - around;
    const int32_t last = bias > INT32_MAX - around ? INT32_MAX : bias + around;
    const int32_t value = mct_tiled_scale_plain(q, first, c);
    if (value != mct_tiled_scale_plain(q, last, c) || value > q->high ||
        (value >= q->low && first == INT32_MIN)) {
        return (mct_armv6m_scale){0, 0, 0, 0};
    }
    const int32_t whole = mct_max(value - q->low, -1);
    return (mct_armv6m_scale){UINT32_MAX, 0, (uint32_t)whole << MCT_ARMV6M_BITS, 0};
}

/* bias, depth: as mct_tiled_channel_of takes them */
static inline mct_armv6m_scale mct_armv6m_scale_of(const mct_requantize *q, int32_t bias, int32_t c,
                                                   int32_t depth) {
    const int32_t m = q->per_channel ? c : 0;
    const int32_t mult = q->mult_q31[m], n = -q->shift[m];
    const int32_t most = (1 << 30) - 1 - depth * (255 * 128);
    const uint32_t zero = (uint32_t)(q->zero_point - q->low) << MCT_ARMV6M_BITS;
    if (n < 1 || mult < 1 << 30 || q->zero_point < q->low || q->zero_point > q->high) {
        return (mct_armv6m_scale){0, 0, 0, 0};
    }
    if (n > MCT_ARMV6M_MOST_SHIFT) {
        return mct_armv6m_constant_of(q, bias, c, (1 << 30) - most);
    }
    if (bias > most || bias < -most) {
        return (mct_armv6m_scale){0, 0, 0, 0};
    }
    const uint32_t middle = 1u << (n + 9);
    const uint32_t factor = ((uint32_t)mult + middle / 2) >> (n + 9);
    const int32_t error = (int32_t)((uint32_t)mult - factor * middle);
    const uint32_t near =
        (uint32_t)(error < 0 ? -error : error) + (1u << (MCT_ARMV6M_BITS - 1 - n)) + 2;
    const uint32_t start = zero + (1u << (MCT_ARMV6M_BITS - 1)) + near - factor * middle;
    return (mct_armv6m_scale){2 * middle, factor, start, near << (33 - MCT_ARMV6M_BITS)};
}

/* Fills the mask. elements: of y */
mct_tiled_output mct_armv6m_output_of(const mct_requantize *q, int32_t elements, int8_t *y,
                                      uint8_t *mask);

/* The elements i, i + step … of sums that are `middle` more than they are. channel_step: 1: the first one
 * is of channel c, each of the next channel, with the next scale; 0: all are of channel c. */
void mct_armv6m_store_sums(const mct_tiled_output *out, const int32_t *sums, int32_t count,
                           const mct_armv6m_scale *scale, int32_t c, int32_t channel_step,
                           int32_t i, int32_t step);

#endif
