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
 * is added to the sums of a channel, or NULL. */
typedef struct {
    const mct_requantize *requantize;
    const int32_t *b;
    int32_t channels;
    int8_t *y;
    uint8_t *mask;
} mct_requantized;

static inline void mct_requantize_tile(const mct_requantized *to, const mct_tile *tile) {
    const mct_requantized out = *to; /* copies stay in registers while y is written */
    const mct_tile in = *tile;
    const mct_requantize q = *to->requantize;
    for (int32_t c = 0; c < in.columns; c += MCT_LANES) {
        const int32_t lanes = mct_min(in.columns - c, MCT_LANES);
        const int32_t channel = in.column + c;
        const mct_v_scale scale = mct_v_channel_scale(&q, channel, lanes);
        const mct_v32 b = out.b != NULL ? mct_v_load_part(out.b + channel, lanes) : (mct_v32){0};
        for (int32_t r = 0; r < in.rows; r++) {
            const mct_v32 sum = mct_v_load(in.sums + r * in.stride + c) + b;
            const mct_v32 scaled = mct_v_requantize(&scale, sum) + q.zero_point;
            const int32_t first = (in.row + r) * out.channels + channel;
            mct_v_clamp_store(scaled, q.low, q.high, first, lanes, out.y, out.mask);
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
