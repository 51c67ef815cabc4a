/* SPDX-License-Identifier: Apache-2.0 */
/* int32 sums to int8, a tile at a time: the vector form of mct_requantize_store. */
#ifndef MCT_REQUANTIZE_TILE_H
#define MCT_REQUANTIZE_TILE_H

#include "mct_fixedpoint.h"
#include "mct_simd.h"
#include "mct_tile.h"

/* A factor per lane; its shift is split into one to the left and one to the right. */
typedef struct {
    mct_v32 mult, left, right;
} mct_v_scale;

static inline mct_v_scale mct_v_scale_of(mct_v32 mult, mct_v32 shift) {
    const mct_v32 left = mct_v_max(shift, mct_v_all(0));
    return (mct_v_scale){.mult = mult, .left = left, .right = left - shift};
}

/* Those of the channels c … c + count - 1. */
static inline mct_v_scale mct_v_channel_scale(const mct_requantize *q, int32_t c, int32_t count) {
    if (!q->per_channel) {
        return mct_v_scale_of(mct_v_all(q->mult_q31[0]), mct_v_all(q->shift[0]));
    }
    return mct_v_scale_of(mct_v_load_part(q->mult_q31 + c, count),
                          mct_v_load_s8(q->shift + c, count));
}

/* mct_requantize_q31 */
static inline mct_v32 mct_v_requantize(const mct_v_scale *s, mct_v32 sums) {
    const mct_v32 scaled = (mct_v32)((mct_vu32)sums << (mct_vu32)s->left);
    return mct_v_rounding_shift(mct_v_high_mul(scaled, s->mult), s->right);
}

static inline void mct_mask_clear(uint8_t *mask, int32_t elements) {
    if (mask != NULL) {
        memset(mask, 0, (size_t)(elements + 7) / 8);
    }
}

/* Sets the bits first … of a mask whose bits there are 0. */
static inline void mct_mask_put(uint8_t *mask, int32_t first, uint32_t bits) {
    if (MCT_LANES == 16 && first % 8 == 0) {
        mask[first >> 3] = (uint8_t)(mask[first >> 3] | bits);
        if (bits > 0xFF) {
            mask[(first >> 3) + 1] = (uint8_t)(mask[(first >> 3) + 1] | bits >> 8);
        }
        return;
    }
    uint32_t rest = bits << (first & 7);
    for (int32_t byte = first >> 3; rest != 0; byte++) {
        mask[byte] = (uint8_t)(mask[byte] | rest);
        rest >>= 8;
    }
}

/* mct_clamp_store for the elements first … first + count - 1, count <= MCT_LANES, in any order: the
 * mask is 0 at the beginning. */
static inline void mct_v_clamp_store(mct_v32 value, int32_t low, int32_t high, int32_t first,
                                     int32_t count, int8_t *y, uint8_t *mask) {
    const mct_v32 clamped = mct_v_min(mct_v_max(value, mct_v_all(low)), mct_v_all(high));
    mct_v_store_s8(y + first, clamped, count);
    if (mask != NULL) {
        const uint32_t inside = mct_v_bits(value == clamped);
        mct_mask_put(mask, first, inside & ((UINT32_C(1) << count) - 1u));
    }
}

/* A requantized image: y[position][channel], and its clamp mask, 0 at the beginning, or NULL. b: what
 * is added to the sums of a channel, or NULL. most: a bound of the sums' magnitudes before that, as
 * mct_most_of gives it. */
typedef struct {
    const mct_requantize *requantize;
    const int32_t *b;
    int32_t channels;
    int8_t *y;
    uint8_t *mask;
    int32_t most;
} mct_requantized;

#define MCT_SMALL_SUM (INT32_C(1) << 30)
#define MCT_SMALL_SHIFT 22
#define MCT_MOST_OF_A_TERM (255 * 128) /* an input, less its zero point, times a weight */

/* Of so many terms, each between -of_each and of_each. */
static inline int32_t mct_most_of(int64_t terms, int32_t of_each) {
    return (int32_t)mct_clamp64(terms * of_each, 0, MCT_SMALL_SUM);
}

/* A factor per lane for sums that are between ±2^30 after b was added, and are shifted to the right, by
 * 22 bits at most. Then nothing overflows, and the rounding and the zero point are added in one with the
 * product. b makes the sums 2^30 more than they are, so that they are not negative, and mult is twice
 * mult_q31: both are unsigned. */
typedef struct {
    mct_v32 b, mult, mult_odd, right;
    mct_v64 added_even, added_odd;
} mct_v_small_scale;

/* -1 in the lanes whose result is the same for all sums, which are between ±most; value: that result,
 * or one beyond the range. Dead channels are such: their factors are tiny and their biases large. */
static inline mct_v32 mct_v_fixed(const mct_v_scale *s, mct_v32 b, const mct_requantize *q,
                                  int32_t most, mct_v32 *value) {
    const mct_v32 least_sum = mct_v_max(b, mct_v_all(INT32_MIN + most)) - most;
    const mct_v32 most_sum = mct_v_min(b, mct_v_all(INT32_MAX - most)) + most;
    const mct_v32 under = mct_v_all(q->low - 1), over = mct_v_all(q->high + 1);
    const mct_v32 low = mct_v_requantize(s, least_sum) + q->zero_point;
    const mct_v32 high = mct_v_requantize(s, most_sum) + q->zero_point;
    *value = mct_v_min(mct_v_max(low, under), over);
    return (s->left == 0) & (*value == mct_v_min(mct_v_max(high, under), over));
}

/* Those of the first `lanes` lanes, to whose sums b is added. Returns whether there are such factors. A
 * fixed result has the factor 0. What is added is one less, and the sign of a sum, 0 if it is negative,
 * else 1, is added later: so what is shifted rounds halves of negative numbers down. */
static inline int mct_v_small_scale_of(const mct_v_scale *s, mct_v32 b, const mct_requantized *to,
                                       int32_t lanes, mct_v_small_scale *small) {
    const int32_t limit = MCT_SMALL_SUM - to->most;
    const uint32_t used = (UINT32_C(1) << lanes) - 1u;
    const mct_v32 fits = (b < limit) & (b > -limit) & (s->left == 0) & (s->mult >= 0) &
                         (s->right > 0) & (s->right <= MCT_SMALL_SHIFT);
    mct_v32 value = {0}, fixed = {0};
    if ((mct_v_bits(fits) & used) != used) {
        if (to->most >= MCT_SMALL_SUM) {
            return 0;
        }
        fixed = ~fits & mct_v_fixed(s, b, to->requantize, to->most, &value);
        if ((mct_v_bits(fits | fixed) & used) != used) {
            return 0;
        }
    }
    const mct_vu32 one = (mct_vu32)mct_v_all(1) << (mct_vu32)s->right;
    const mct_vu32 zero_points = one * (uint32_t)to->requantize->zero_point;
    const mct_v32 added = (mct_v32)((one >> 1) + zero_points - 1u);
    const mct_v32 high = (fixed & (value + value)) | (~fixed & added);
    const mct_v32 mult = ~fixed & (mct_v32)((mct_vu32)s->mult << 1);
    const mct_vu64 half = (UINT64_C(1) << 31) - (mct_vu64){0};
    const mct_vu64 even = ((mct_vu64)high << 32) + half - ((mct_vu64)mct_v_even(mult) << 30);
    const mct_vu64 odd =
        ((mct_vu64)mct_v_odd(high) << 32) + half - ((mct_vu64)mct_v_odd(mult) << 30);
    *small = (mct_v_small_scale){
        .b = (mct_v32)((mct_vu32)(~fixed & b) + (uint32_t)MCT_SMALL_SUM),
        .mult = mult,
        .mult_odd = mct_v_odd(mult),
        .right = (fixed & 1) | (~fixed & s->right),
        .added_even = (mct_v64)even,
        .added_odd = (mct_v64)odd,
    };
    return 1;
}

/* mct_v_requantize, plus the zero point, of sums without b. */
static inline mct_v32 mct_v_requantize_small(const mct_v_small_scale *s, mct_v32 sums) {
    const mct_v32 sum = (mct_v32)((mct_vu32)sums + (mct_vu32)s->b);
    const mct_v64 even = mct_v_mul_even_unsigned(sum, s->mult) + s->added_even;
    const mct_v64 odd = mct_v_mul_even_unsigned(mct_v_odd_down(sum), s->mult_odd) + s->added_odd;
    return (mct_v_upper(even, odd) + (sum >> 30)) >> s->right;
}

/* The channels of a vector, from c on, of all rows of a tile. */
static inline void mct_requantize_small_lanes(const mct_requantized *to, const mct_tile *tile,
                                              int32_t c, int32_t lanes,
                                              const mct_v_small_scale *scale) {
    const mct_requantize q = *to->requantize;
    const mct_v_small_scale small = *scale;
    const int32_t *sums = tile->sums + c, stride = tile->stride, channels = to->channels;
    int32_t first = tile->row * channels + tile->column + c;
    int32_t r = 0;
    for (; to->mask == NULL && r + 4 <= tile->rows; r += 4) {
        mct_v32 v[4];
        for (int i = 0; i < 4; i++) {
            v[i] = mct_v_requantize_small(&small, mct_v_load(sums + (r + i) * stride));
        }
        const mct_v32 bytes = mct_v_clamp_bytes(mct_v_bytes(v), q.low, q.high);
        mct_v_store_rows(to->y + first, channels, bytes, lanes);
        first += 4 * channels;
    }
    for (; r < tile->rows; r++) {
        const mct_v32 v = mct_v_requantize_small(&small, mct_v_load(sums + r * stride));
        mct_v_clamp_store(v, q.low, q.high, first, lanes, to->y, to->mask);
        first += channels;
    }
}

static inline void mct_requantize_lanes(const mct_requantized *to, const mct_tile *tile, int32_t c,
                                        int32_t lanes, const mct_v_scale *scale, mct_v32 b) {
    const mct_requantize q = *to->requantize;
    for (int32_t r = 0; r < tile->rows; r++) {
        const mct_v32 sum = mct_v_load(tile->sums + r * tile->stride + c) + b;
        const int32_t first = (tile->row + r) * to->channels + tile->column + c;
        mct_v_clamp_store(mct_v_requantize(scale, sum) + q.zero_point, q.low, q.high, first, lanes,
                          to->y, to->mask);
    }
}

static inline void mct_requantize_tile(const mct_requantized *to, const mct_tile *tile) {
    const mct_requantized out = *to; /* copies stay in registers while y is written */
    const mct_tile in = *tile;
    for (int32_t c = 0; c < in.columns; c += MCT_LANES) {
        const int32_t lanes = mct_min(in.columns - c, MCT_LANES);
        const int32_t channel = in.column + c;
        const mct_v_scale scale = mct_v_channel_scale(out.requantize, channel, lanes);
        const mct_v32 b = out.b != NULL ? mct_v_load_part(out.b + channel, lanes) : (mct_v32){0};
        mct_v_small_scale small;
        if (!mct_v_small_scale_of(&scale, b, &out, lanes, &small)) {
            mct_requantize_lanes(&out, &in, c, lanes, &scale, b);
        } else if (lanes == MCT_LANES) {
            mct_requantize_small_lanes(&out, &in, c, MCT_LANES, &small);
        } else {
            mct_requantize_small_lanes(&out, &in, c, lanes, &small);
        }
    }
}

/* The same for rounds_once. */
static inline void mct_requantize_tile_once(const mct_requantized *to, const mct_tile *tile) {
    const mct_requantize *q = to->requantize;
    for (int32_t r = 0; r < tile->rows; r++) {
        for (int32_t c = 0; c < tile->columns; c++) {
            const int32_t channel = tile->column + c;
            const int32_t m = q->per_channel ? channel : 0;
            const int32_t b = to->b != NULL ? to->b[channel] : 0;
            const int32_t sum = tile->sums[r * tile->stride + c] + b;
            const int32_t scaled = mct_requantize_once_q31(sum, q->mult_q31[m], q->shift[m]);
            mct_v_clamp_store(mct_v_all(scaled + q->zero_point), q->low, q->high,
                              (tile->row + r) * to->channels + channel, 1, to->y, to->mask);
        }
    }
}

/* A mct_take; result: mct_requantized. */
static inline void mct_take_requantized(void *result, const mct_tile *tile) {
    const mct_requantized *to = result;
    if (to->requantize->rounds_once) {
        mct_requantize_tile_once(to, tile);
    } else {
        mct_requantize_tile(to, tile);
    }
}

#endif
