/* SPDX-License-Identifier: Apache-2.0 */
/* Weights updated many at once: the vector form of mct_update_row_s8. */
#ifndef MCT_UPDATE_ROW_H
#define MCT_UPDATE_ROW_H

#include "mct_gradient_tile.h"
#include "mct_residual.h"
#include "mct_update.h"

/* Where each lane's two bits are, of MCT_LANES / 4 bytes. */
static inline mct_vu32 mct_v_twos(void) {
    return 2 * mct_v_count(0);
}

/* Up to MCT_LANES / 4 bytes, one after the other from the lowest on; without a call that copies few. */
static inline int32_t mct_load_bytes(const uint8_t *from, int32_t count) {
    int32_t word = 0;
    if (count >= MCT_LANES / 4) {
        memcpy(&word, from, MCT_LANES / 4);
        return word;
    }
    for (int32_t i = 0; i < count && i < 4; i++) {
        word |= from[i] << 8 * i;
    }
    return word;
}

static inline void mct_store_bytes(uint8_t *to, int32_t word, int32_t count) {
    if (count >= MCT_LANES / 4) {
        memcpy(to, &word, MCT_LANES / 4);
        return;
    }
    for (int32_t i = 0; i < count && i < 4; i++) {
        to[i] = (uint8_t)(word >> 8 * i);
    }
}

/* The residuals of the elements first … first + count - 1; with 4 bits first and count are even. */
static inline mct_v32 mct_v_residuals(const uint8_t *residual, int32_t bits, int32_t first,
                                      int32_t count) {
    if (bits == 8) {
        return mct_v_load_s8((const int8_t *)residual + first, count) & 0xFF;
    }
    if (bits == 0) {
        return (mct_v32){0};
    }
    if (bits == 2) {
        int32_t lanes[MCT_LANES] = {0};
        if (first % 4 == 0 && count % 4 == 0) {
            const int32_t word = mct_load_bytes(residual + first / 4, count / 4);
            return (mct_v32)((mct_vu32)mct_v_all(word) >> mct_v_twos()) & 3;
        }
        for (int32_t l = 0; l < count; l++) {
            lanes[l] = mct_residual_get(residual, bits, first + l);
        }
        return mct_v_load(lanes);
    }
    return mct_v_load_u4(residual + first / 2, count);
}

static inline void mct_v_residuals_put(uint8_t *residual, int32_t bits, int32_t first,
                                       int32_t count, mct_v32 r) {
    if (bits == 8) {
        mct_v_store_s8((int8_t *)residual + first, r, count);
    } else if (bits == 4) {
        mct_v_store_u4(residual + first / 2, r, count);
    } else if (bits == 2 && first % 4 == 0 && count % 4 == 0) {
        mct_store_bytes(residual + first / 4, mct_v_total((mct_v32)((mct_vu32)r << mct_v_twos())),
                        count / 4);
    } else if (bits == 2) {
        int32_t lanes[MCT_LANES];
        mct_v_store(lanes, r);
        for (int32_t l = 0; l < count; l++) {
            mct_residual_set(residual, bits, first + l, lanes[l]);
        }
    }
}

/* What to subtract from elements whose gradients are sums: ±limit at most. are_small: they are known
 * to be. */
__attribute__((always_inline)) static inline mct_v32
mct_v_delta(const mct_v_factor *rate, mct_v32 sums, mct_v32 random, int32_t limit, int are_small) {
    if (are_small || mct_v_is_small(rate, sums)) {
        return mct_v_round_small(mct_v_small_fraction(rate, sums), random, limit);
    }
    return mct_v_round_fraction(mct_v_scale_to_fraction(rate, sums), random, limit);
}

/* The elements first … first + count - 1, count <= MCT_LANES; first and count are even. */
__attribute__((always_inline)) static inline void
mct_v_update(const mct_parameter *parameter, int32_t bits, const mct_v_factor *rate, mct_v32 sums,
             mct_v32 random, int32_t first, int32_t count, int are_small) {
    int8_t *w = (int8_t *)parameter->values + first;
    uint8_t *residual = parameter->residual;
    const int32_t one = 1 << bits;
    const mct_v32 delta = mct_v_delta(rate, sums, random, MCT_STEP_LIMIT * one, are_small);
    const mct_v32 old =
        mct_v_load_s8(w, count) * one + mct_v_residuals(residual, bits, first, count);
    const mct_v32 updated =
        mct_v_min(mct_v_max(old - delta, mct_v_all(-127 * one)), mct_v_all(128 * one - 1));
    mct_v_store_s8(w, updated >> bits, count);
    mct_v_residuals_put(residual, bits, first, count, updated & (one - 1));
}

/* The rates of the channels c … c + count - 1, times the learning rate. */
static inline mct_v_factor mct_v_rates(const mct_updater *u, int32_t c, int32_t count) {
    const mct_parameter *parameter = u->parameter;
    const mct_v32 lr = mct_v_all(u->step->lr_mult_q31);
    const mct_v32 mult = mct_v_load_part(parameter->mult_q31 + c, count);
    const mct_v32 shift = mct_v_load_s8(parameter->shift + c, count);
    return mct_v_factor_of(mct_v_high_mul(mult, lr), shift + (u->step->lr_shift + u->exponent));
}

/* That of channel c, in all lanes. */
static inline mct_v_factor mct_v_rate(const mct_updater *u, int32_t c) {
    const mct_parameter *parameter = u->parameter;
    const int32_t m = parameter->per_channel ? c : 0;
    const int32_t mult = mct_high_mul(parameter->mult_q31[m], u->step->lr_mult_q31);
    return mct_v_factor_of(mct_v_all(mult),
                           mct_v_all(parameter->shift[m] + u->step->lr_shift + u->exponent));
}

/* What to subtract from the biases of `lanes` channels from c on. */
static inline mct_v32 mct_v_deltas(const mct_updater *u, int32_t c, mct_v32 sums, int32_t lanes,
                                   int32_t limit) {
    const mct_v_factor rates =
        u->parameter->per_channel ? mct_v_rates(u, c, lanes) : mct_v_rate(u, 0);
    return mct_v_delta(&rates, sums, mct_v_random16(u->key, mct_v_count(c)), limit, 0);
}

/* The weights from .. to - 1 of a row, both even, all at one rate, or each at its channel's. Compiled
 * for each number of bits. A product of all lanes takes as long as most of what is done with a random
 * number, so where it begins is added up. */
__attribute__((always_inline)) static inline void
mct_v_update_run(const mct_updater *u, int own, mct_v_factor rate, int32_t bits,
                 const int32_t *sums, int32_t first, int32_t from, int32_t to, int are_small) {
    const mct_parameter parameter = *u->parameter;
    mct_vu32 at = mct_v_random_at(u->key, mct_v_count(first + from));
    int32_t j = from;
    for (; j + MCT_LANES <= to; j += MCT_LANES, at += MCT_LANES * MCT_RANDOM_STEP) {
        if (own) {
            rate = mct_v_rates(u, j, MCT_LANES);
        }
        mct_v_update(&parameter, bits, &rate, mct_v_load(sums + j), mct_v_random16_of(at),
                     first + j, MCT_LANES, are_small);
    }
    if (j < to) {
        if (own) {
            rate = mct_v_rates(u, j, to - j);
        }
        mct_v_update(&parameter, bits, &rate, mct_v_load_part(sums + j, to - j),
                     mct_v_random16_of(at), first + j, to - j, 0);
    }
}

/* The same at one rate, of sums of which none is larger than `most` in magnitude. */
__attribute__((always_inline)) static inline void
mct_v_update_at(const mct_updater *u, mct_v_factor rate, int32_t bits, const int32_t *sums,
                int32_t first, int32_t from, int32_t to, int32_t most) {
    if (rate.may_be_small && most <= INT32_MAX >> rate.left[0]) {
        mct_v_update_run(u, 0, rate, bits, sums, first, from, to, 1);
    } else {
        mct_v_update_run(u, 0, rate, bits, sums, first, from, to, 0);
    }
}

/* mct_update_row_s8 of channel c; mct_update_channels_s8 if it is -1. Elements that share their byte
 * of residuals with the row before are done alone, and so is one that shares it with the next.
 * most: no sum is larger in magnitude, INT32_MAX where that is not known. */
static inline void mct_update_row_vector(const mct_updater *u, int32_t c, const int32_t *sums,
                                         int32_t first, int32_t count, int32_t most) {
    const int32_t bits = u->parameter->residual_bits;
    const int32_t unit = bits == 2 ? 4 : 2; /* elements, of which none shares a byte with others */
    const int32_t head = mct_min((unit - first % unit) % unit, count);
    const int32_t tail = head + (count - head) / 2 * 2;
    const int own = c < 0 && u->parameter->per_channel;
    const mct_v_factor factor = mct_v_rate(u, mct_max(c, 0));
    for (int32_t j = 0; c < 0 && j < head; j++) {
        mct_update_row_s8(u, j, sums + j, first + j, 1);
    }
    if (c >= 0 && head > 0) {
        mct_update_row_s8(u, c, sums, first, head);
    }
    if (own) {
        mct_v_update_run(u, 1, factor, bits, sums, first, head, tail, 0);
    } else if (bits == 8) {
        mct_v_update_at(u, factor, 8, sums, first, head, tail, most);
    } else if (bits == 4) {
        mct_v_update_at(u, factor, 4, sums, first, head, tail, most);
    } else if (bits == 2) {
        mct_v_update_at(u, factor, 2, sums, first, head, tail, most);
    } else {
        mct_v_update_at(u, factor, bits, sums, first, head, tail, most);
    }
    if (tail < count) {
        mct_update_row_s8(u, c < 0 ? tail : c, sums + tail, first + tail, 1);
    }
}

#endif
