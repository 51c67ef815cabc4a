/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of mct_dsp_arm.h for any machine; only mct_dsp.h includes this. */
#ifndef MCT_DSP_EMULATED_H
#define MCT_DSP_EMULATED_H

static inline int32_t mct_add_wrapping(int32_t a, int32_t b) {
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline uint32_t mct_lows(uint32_t a, uint32_t b) {
    return (a & 0xFFFFu) | b << 16;
}
static inline uint32_t mct_highs(uint32_t a, uint32_t b) {
    return a >> 16 | (b & 0xFFFF0000u);
}

static inline uint32_t mct_even_bytes(uint32_t word) {
    return mct_pair((int8_t)word, (int8_t)(word >> 16));
}
static inline uint32_t mct_odd_bytes(uint32_t word) {
    return mct_pair((int8_t)(word >> 8), (int8_t)(word >> 24));
}
static inline uint32_t mct_add_pairs(uint32_t a, uint32_t b) {
    return mct_pair(mct_low(a) + mct_low(b), mct_high(a) + mct_high(b));
}
static inline uint32_t mct_add_even_bytes(uint32_t pair, uint32_t word) {
    return mct_add_pairs(pair, mct_even_bytes(word));
}
static inline uint32_t mct_add_odd_bytes(uint32_t pair, uint32_t word) {
    return mct_add_pairs(pair, mct_odd_bytes(word));
}

static inline int32_t mct_dot(uint32_t a, uint32_t b, int32_t sum) {
    const int32_t low = mct_add_wrapping(sum, mct_low(a) * mct_low(b));
    return mct_add_wrapping(low, mct_high(a) * mct_high(b));
}
static inline int32_t mct_mul_low_high(uint32_t a, uint32_t b, int32_t sum) {
    return mct_add_wrapping(sum, mct_low(a) * mct_high(b));
}
static inline int32_t mct_mul_high_low(uint32_t a, uint32_t b, int32_t sum) {
    return mct_add_wrapping(sum, mct_high(a) * mct_low(b));
}
static inline int32_t mct_mul_low_low(uint32_t a, uint32_t b, int32_t sum) {
    return mct_add_wrapping(sum, mct_low(a) * mct_low(b));
}

static inline int32_t mct_add_high_product(int32_t sum, int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b + (INT64_C(1) << 31);
    return mct_add_wrapping(sum, (int32_t)(product >> 32));
}

static inline int32_t mct_high_product(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b) >> 32);
}

static inline int32_t mct_saturate8(int32_t x) {
    return x < -128 ? -128 : (x > 127 ? 127 : x);
}
static inline int32_t mct_half_saturate8(int32_t x) {
    return mct_saturate8(x >> 1);
}

static inline int32_t mct_whole_saturate8(int32_t x) {
    return mct_saturate8(x >> 16);
}

static inline int32_t mct_add_saturated(int32_t a, int32_t b) {
    const int64_t sum = (int64_t)a + b;
    return sum < INT32_MIN ? INT32_MIN : (sum > INT32_MAX ? INT32_MAX : (int32_t)sum);
}

static inline uint32_t mct_sub_bytes_saturated(uint32_t a, uint32_t b) {
    uint32_t result = 0;
    for (int32_t i = 0; i < 32; i += 8) {
        const int32_t difference = mct_saturate8((int8_t)(a >> i) - (int8_t)(b >> i));
        result |= (uint32_t)(uint8_t)difference << i;
    }
    return result;
}

static inline mct_sums4 mct_dot4(const uint32_t *panel, const int8_t *stream, int32_t quads,
                                 mct_sums4 sums) {
    for (int32_t q = 0; q < quads; q++) {
        const uint32_t word = mct_load32(stream + 4 * q);
        for (int32_t l = 0; l < 4; l++) {
            sums.lane[l] = mct_dot(panel[8 * q + l], mct_even_bytes(word), sums.lane[l]);
            sums.lane[l] = mct_dot(panel[8 * q + 4 + l], mct_odd_bytes(word), sums.lane[l]);
        }
    }
    return sums;
}

static inline mct_sums2 mct_dot2(const uint32_t *terms, const int8_t *first, const int8_t *second,
                                 int32_t quads, mct_sums2 sums) {
    for (int32_t q = 0; q < quads; q++, terms += 2) {
        const uint32_t one = mct_load32(first + 4 * q), two = mct_load32(second + 4 * q);
        sums.first = mct_dot(terms[0], mct_even_bytes(one), sums.first);
        sums.first = mct_dot(terms[1], mct_odd_bytes(one), sums.first);
        sums.second = mct_dot(terms[0], mct_even_bytes(two), sums.second);
        sums.second = mct_dot(terms[1], mct_odd_bytes(two), sums.second);
    }
    return sums;
}

#endif
