/* int32 sums to int8, a tile at a time: the vector form of mct_requantize_store. */
#ifndef MCT_ROWS_H
#define MCT_ROWS_H

#include "mct_fixedpoint.h"
#include "mct_simd.h"

/* A factor per lane, its shift split into left and right. */
typedef struct {
    mct_v32 mult, left, right;
} mct_v_scale;

/* Those of the channels c … c + count - 1. */
static inline mct_v_scale mct_v_scale_of(const mct_requantize *q, int32_t c, int32_t count) {
    int32_t mult[MCT_LANES] = {0};
    int32_t shift[MCT_LANES] = {0};
    for (int32_t l = 0; l < MCT_LANES && l < count; l++) {
        const int32_t m = q->per_channel ? c + l : 0;
        mult[l] = q->mult_q31[m];
        shift[l] = q->shift[m];
    }
    const mct_v32 shifts = mct_v_load(shift);
    const mct_v32 left = mct_v_max(shifts, mct_v_all(0));
    return (mct_v_scale){.mult = mct_v_load(mult), .left = left, .right = left - shifts};
}

/* mct_requantize_q31 lane by lane. */
static inline mct_v32 mct_v_requantize(const mct_v_scale *s, mct_v32 sums) {
    const mct_v32 scaled = (mct_v32)((mct_vu32)sums << (mct_vu32)s->left);
    return mct_v_rounding_shift(mct_v_high_mul(scaled, s->mult), s->right);
}

/* Sets bits first … of a mask whose bits there are 0. */
static inline void mct_mask_put(uint8_t *mask, int32_t first, uint32_t bits) {
    uint32_t rest = bits << (first & 7);
    for (int32_t byte = first >> 3; rest != 0; byte++) {
        mask[byte] = (uint8_t)(mask[byte] | rest);
        rest >>= 8;
    }
}

/* mct_clamp_store for the elements first … first + count - 1, count <= MCT_LANES; in any order, so
 * the mask is all 0 at the beginning. */
static inline void mct_v_clamp_store(mct_v32 value, int32_t low, int32_t high, int32_t first,
                                     int32_t count, int8_t *y, uint8_t *mask) {
    const mct_v32 clamped = mct_v_min(mct_v_max(value, mct_v_all(low)), mct_v_all(high));
    mct_v_store_s8(y + first, clamped, count);
    if (mask != NULL) {
        const uint32_t inside = mct_v_bits(value == clamped);
        mct_mask_put(mask, first, inside & ((UINT32_C(1) << count) - 1u));
    }
}

/* Where a tile of sums belongs: rows apart by sums_stride in sums, by y_stride in y. */
typedef struct {
    int32_t rows, channels; /* of the tile */
    int32_t channel;        /* the first */
    int32_t first;          /* element of y */
    int32_t sums_stride, y_stride;
} mct_rows;

static inline void mct_mask_clear(uint8_t *mask, int32_t elements) {
    if (mask != NULL) {
        memset(mask, 0, (size_t)(elements + 7) / 8);
    }
}

/* y = the int8 of sums + b for a tile; the mask is all 0 at the beginning. */
static inline void mct_requantize_rows(const mct_requantize *q, const mct_rows *at,
                                       const int32_t *sums, const int32_t *b, int8_t *y,
                                       uint8_t *mask) {
    for (int32_t c = 0; c < at->channels; c += MCT_LANES) {
        const int32_t lanes = mct_min(at->channels - c, MCT_LANES);
        const mct_v_scale scale = mct_v_scale_of(q, at->channel + c, lanes);
        int32_t bias[MCT_LANES] = {0};
        memcpy(bias, b + at->channel + c, (size_t)lanes * sizeof *b);
        const mct_v32 biases = mct_v_load(bias);
        for (int32_t r = 0; r < at->rows; r++) {
            const mct_v32 sum = mct_v_load(sums + r * at->sums_stride + c) + biases;
            const mct_v32 scaled = mct_v_requantize(&scale, sum) + q->zero_point;
            mct_v_clamp_store(scaled, q->low, q->high, at->first + r * at->y_stride + c, lanes, y,
                              mask);
        }
    }
}

/* The same for q->rounds_once. */
static inline void mct_requantize_rows_once(const mct_requantize *q, const mct_rows *at,
                                            const int32_t *sums, const int32_t *b, int8_t *y,
                                            uint8_t *mask) {
    for (int32_t r = 0; r < at->rows; r++) {
        for (int32_t c = 0; c < at->channels; c++) {
            const int32_t sum = sums[r * at->sums_stride + c] + b[at->channel + c];
            const int32_t m = q->per_channel ? at->channel + c : 0;
            const int32_t scaled = mct_requantize_once_q31(sum, q->mult_q31[m], q->shift[m]);
            const int32_t value = scaled + q->zero_point;
            const int32_t clamped = mct_clamp(value, q->low, q->high);
            const int32_t i = at->first + r * at->y_stride + c;
            y[i] = (int8_t)clamped;
            if (mask != NULL) {
                mct_mask_put(mask, i, value == clamped);
            }
        }
    }
}

#endif
