/* SPDX-License-Identifier: Apache-2.0 */
/* The intrinsics that our bodies use, and the functions of mct_helium_arm.h, for any machine; only
 * mct_helium.h includes this. Arm: "MVE Intrinsics", and DDI 0553, the Armv8-M manual. */
#ifndef MCT_HELIUM_EMULATED_H
#define MCT_HELIUM_EMULATED_H

typedef struct {
    int8_t lane[16];
} int8x16_t;
typedef struct {
    int16_t lane[8];
} int16x8_t;
typedef struct {
    uint16_t lane[8];
} uint16x8_t;
typedef struct {
    int32_t lane[4];
} int32x4_t;
typedef struct {
    uint32_t lane[4];
} uint32x4_t;
typedef uint16_t mve_pred16_t; /* a bit for each byte of a vector */

/* ---- what a lane does ---- */

static inline int32_t mct_helium_saturate(int64_t x) {
    return x < INT32_MIN ? INT32_MIN : (x > INT32_MAX ? INT32_MAX : (int32_t)x);
}
static inline int32_t mct_helium_rounded_high(int32_t a, int32_t b) {
    return mct_helium_saturate(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}
/* x * 2^shift; shift: -32 to 31, rounded half up to the right, wrapping to the left. */
static inline int32_t mct_helium_rounding_shift(int32_t x, int32_t shift) {
    if (shift >= 0) {
        return (int32_t)((uint32_t)x << shift);
    }
    return (int32_t)(((int64_t)x + (INT64_C(1) << (-shift - 1))) >> -shift);
}

/* The same rounded down. */
static inline int32_t mct_helium_shift(int32_t x, int32_t shift) {
    return shift >= 0 ? (int32_t)((uint32_t)x << shift) : x >> (shift < -31 ? 31 : -shift);
}

/* ---- predicates ---- */

static inline mve_pred16_t mct_helium_first(int64_t bytes) {
    return (mve_pred16_t)(bytes >= 16 ? 0xFFFF : (1 << bytes) - 1);
}
static inline mve_pred16_t vctp8q(uint32_t count) {
    return mct_helium_first(count);
}
static inline mve_pred16_t vctp16q(uint32_t count) {
    return mct_helium_first((int64_t)count * 2);
}
static inline mve_pred16_t vctp32q(uint32_t count) {
    return mct_helium_first((int64_t)count * 4);
}
static inline int mct_helium_has(mve_pred16_t p, int32_t byte) {
    return (p >> byte & 1) != 0;
}

/* ---- loads and stores ---- */

static inline int8x16_t vldrbq_z_s8(const int8_t *from, mve_pred16_t p) {
    int8x16_t v;
    for (int32_t i = 0; i < 16; i++) {
        v.lane[i] = (int8_t)(mct_helium_has(p, i) ? from[i] : 0);
    }
    return v;
}
static inline int8x16_t vldrbq_s8(const int8_t *from) {
    return vldrbq_z_s8(from, 0xFFFF);
}
static inline void vstrbq_p_s8(int8_t *to, int8x16_t v, mve_pred16_t p) {
    for (int32_t i = 0; i < 16; i++) {
        if (mct_helium_has(p, i)) {
            to[i] = v.lane[i];
        }
    }
}
static inline void vstrbq_s8(int8_t *to, int8x16_t v) {
    vstrbq_p_s8(to, v, 0xFFFF);
}
static inline int32x4_t vldrwq_s32(const int32_t *from) {
    int32x4_t v;
    memcpy(v.lane, from, sizeof v.lane);
    return v;
}
static inline void vstrwq_s32(int32_t *to, int32x4_t v) {
    memcpy(to, v.lane, sizeof v.lane);
}
static inline int32x4_t vldrbq_z_s32(const int8_t *from, mve_pred16_t p) {
    int32x4_t v;
    for (int32_t i = 0; i < 4; i++) {
        v.lane[i] = mct_helium_has(p, 4 * i) ? from[i] : 0;
    }
    return v;
}
static inline int32x4_t vldrbq_s32(const int8_t *from) {
    return vldrbq_z_s32(from, 0xFFFF);
}
static inline void vstrbq_p_s32(int8_t *to, int32x4_t v, mve_pred16_t p) {
    for (int32_t i = 0; i < 4; i++) {
        if (mct_helium_has(p, 4 * i)) {
            to[i] = (int8_t)v.lane[i];
        }
    }
}
static inline void vstrbq_s32(int8_t *to, int32x4_t v) {
    vstrbq_p_s32(to, v, 0xFFFF);
}

static inline int16x8_t vldrbq_gather_offset_z_s16(const int8_t *from, uint16x8_t at,
                                                   mve_pred16_t p) {
    int16x8_t v;
    for (int32_t i = 0; i < 8; i++) {
        v.lane[i] = (int16_t)(mct_helium_has(p, 2 * i) ? from[at.lane[i]] : 0);
    }
    return v;
}
static inline int16x8_t vldrbq_gather_offset_s16(const int8_t *from, uint16x8_t at) {
    return vldrbq_gather_offset_z_s16(from, at, 0xFFFF);
}
static inline void vstrbq_scatter_offset_p_s16(int8_t *to, uint16x8_t at, int16x8_t v,
                                               mve_pred16_t p) {
    for (int32_t i = 0; i < 8; i++) {
        if (mct_helium_has(p, 2 * i)) {
            to[at.lane[i]] = (int8_t)v.lane[i];
        }
    }
}
static inline void vstrbq_scatter_offset_s16(int8_t *to, uint16x8_t at, int16x8_t v) {
    vstrbq_scatter_offset_p_s16(to, at, v, 0xFFFF);
}
static inline void vstrbq_scatter_offset_p_s32(int8_t *to, uint32x4_t at, int32x4_t v,
                                               mve_pred16_t p) {
    for (int32_t i = 0; i < 4; i++) {
        if (mct_helium_has(p, 4 * i)) {
            to[at.lane[i]] = (int8_t)v.lane[i];
        }
    }
}
static inline void vstrbq_scatter_offset_s32(int8_t *to, uint32x4_t at, int32x4_t v) {
    vstrbq_scatter_offset_p_s32(to, at, v, 0xFFFF);
}

static inline int32x4_t vldrwq_z_s32(const int32_t *from, mve_pred16_t p) {
    int32x4_t v;
    for (int32_t i = 0; i < 4; i++) {
        v.lane[i] = mct_helium_has(p, 4 * i) ? from[i] : 0;
    }
    return v;
}
static inline uint32x4_t vldrbq_gather_offset_u32(const uint8_t *from, uint32x4_t at) {
    uint32x4_t v;
    for (int32_t i = 0; i < 4; i++) {
        v.lane[i] = from[at.lane[i]];
    }
    return v;
}
static inline void vstrbq_scatter_offset_u32(uint8_t *to, uint32x4_t at, uint32x4_t v) {
    for (int32_t i = 0; i < 4; i++) {
        to[at.lane[i]] = (uint8_t)v.lane[i];
    }
}

/* ---- lanes' numbers ---- */

static inline uint32x4_t mct_helium_numbers_u32(void) {
    const uint32x4_t v = {{0, 1, 2, 3}};
    return v;
}
static inline uint16x8_t vmulq_n_u16(uint16x8_t a, uint16_t b) {
    uint16x8_t v;
    for (int32_t i = 0; i < 8; i++) {
        v.lane[i] = (uint16_t)((uint32_t)a.lane[i] * b);
    }
    return v;
}
/* ---- int8 ---- */

static inline int8x16_t vdupq_n_s8(int8_t x) {
    int8x16_t v;
    for (int32_t i = 0; i < 16; i++) {
        v.lane[i] = x;
    }
    return v;
}
static inline int32_t vmladavaq_p_s8(int32_t sum, int8x16_t a, int8x16_t b, mve_pred16_t p) {
    uint32_t all = (uint32_t)sum;
    for (int32_t i = 0; i < 16; i++) {
        all += mct_helium_has(p, i) ? (uint32_t)(a.lane[i] * b.lane[i]) : 0;
    }
    return (int32_t)all;
}
static inline int32_t vmladavaq_s8(int32_t sum, int8x16_t a, int8x16_t b) {
    return vmladavaq_p_s8(sum, a, b, 0xFFFF);
}

static inline int32_t vmladavq_s8(int8x16_t a, int8x16_t b) {
    return vmladavaq_s8(0, a, b);
}

/* ---- int32 ---- */

#define MCT_LANES(expression)                                                                      \
    int32x4_t v;                                                                                   \
    for (int32_t i = 0; i < 4; i++) {                                                              \
        v.lane[i] = (expression);                                                                  \
    }                                                                                              \
    return v

static inline int32x4_t vdupq_n_s32(int32_t x) {
    MCT_LANES(x);
}
static inline int32x4_t vaddq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES((int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]));
}
static inline int32x4_t vaddq_n_s32(int32x4_t a, int32_t b) {
    MCT_LANES((int32_t)((uint32_t)a.lane[i] + (uint32_t)b));
}
static inline int32x4_t vandq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(a.lane[i] & b.lane[i]);
}
static inline int32x4_t vshlq_r_s32(int32x4_t a, int32_t shift) {
    MCT_LANES(mct_helium_shift(a.lane[i], shift));
}
static inline int32x4_t vmulq_n_s32(int32x4_t a, int32_t b) {
    MCT_LANES((int32_t)((uint32_t)a.lane[i] * (uint32_t)b));
}
static inline int32x4_t vmaxq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline int32x4_t vminq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
}
static inline int32x4_t vshrq_n_s32(int32x4_t a, int bits) {
    MCT_LANES(a.lane[i] >> bits);
}
static inline int32x4_t vqrdmulhq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(mct_helium_rounded_high(a.lane[i], b.lane[i]));
}
static inline int32x4_t vrshlq_s32(int32x4_t a, int32x4_t shift) {
    MCT_LANES(mct_helium_rounding_shift(a.lane[i], shift.lane[i]));
}
static inline int32x4_t vqrdmulhq_n_s32(int32x4_t a, int32_t b) {
    MCT_LANES(mct_helium_rounded_high(a.lane[i], b));
}
static inline int32x4_t vrshlq_n_s32(int32x4_t a, int32_t shift) {
    MCT_LANES(mct_helium_rounding_shift(a.lane[i], shift));
}
static inline mve_pred16_t vcmpeqq_s32(int32x4_t a, int32x4_t b) {
    uint32_t p = 0;
    for (int32_t i = 0; i < 4; i++) {
        p |= a.lane[i] == b.lane[i] ? UINT32_C(15) << (4 * i) : 0;
    }
    return (mve_pred16_t)p;
}

static inline mve_pred16_t vcmpneq_s32(int32x4_t a, int32x4_t b) {
    return (mve_pred16_t)~vcmpeqq_s32(a, b);
}
static inline mve_pred16_t vcmpneq_u32(uint32x4_t a, uint32x4_t b) {
    uint32_t p = 0;
    for (int32_t i = 0; i < 4; i++) {
        p |= a.lane[i] != b.lane[i] ? UINT32_C(15) << (4 * i) : 0;
    }
    return (mve_pred16_t)p;
}
static inline int32x4_t veorq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(a.lane[i] ^ b.lane[i]);
}
static inline int32x4_t vorrq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(a.lane[i] | b.lane[i]);
}
static inline int32x4_t vnegq_s32(int32x4_t a) {
    MCT_LANES((int32_t)(0u - (uint32_t)a.lane[i]));
}
static inline int32x4_t vshlq_s32(int32x4_t a, int32x4_t shift) {
    MCT_LANES(mct_helium_shift(a.lane[i], shift.lane[i]));
}
static inline int32x4_t vmulhq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES((int32_t)(((int64_t)a.lane[i] * b.lane[i]) >> 32));
}
static inline int32x4_t vqaddq_s32(int32x4_t a, int32x4_t b) {
    MCT_LANES(mct_helium_saturate((int64_t)a.lane[i] + b.lane[i]));
}

/* ---- uint32 ---- */

#define MCT_UNSIGNED_LANES(expression)                                                             \
    uint32x4_t v;                                                                                  \
    for (int32_t i = 0; i < 4; i++) {                                                              \
        v.lane[i] = (expression);                                                                  \
    }                                                                                              \
    return v

static inline uint32x4_t vdupq_n_u32(uint32_t x) {
    MCT_UNSIGNED_LANES(x);
}
static inline uint32x4_t vaddq_n_u32(uint32x4_t a, uint32_t b) {
    MCT_UNSIGNED_LANES(a.lane[i] + b);
}
static inline uint32x4_t vmulq_n_u32(uint32x4_t a, uint32_t b) {
    MCT_UNSIGNED_LANES(a.lane[i] * b);
}
static inline uint32x4_t vandq_u32(uint32x4_t a, uint32x4_t b) {
    MCT_UNSIGNED_LANES(a.lane[i] & b.lane[i]);
}
static inline uint32x4_t vorrq_m_u32(uint32x4_t otherwise, uint32x4_t a, uint32x4_t b,
                                     mve_pred16_t p) {
    MCT_UNSIGNED_LANES(mct_helium_has(p, 4 * i) ? a.lane[i] | b.lane[i] : otherwise.lane[i]);
}
static inline uint32x4_t veorq_u32(uint32x4_t a, uint32x4_t b) {
    MCT_UNSIGNED_LANES(a.lane[i] ^ b.lane[i]);
}
static inline uint32x4_t vshrq_n_u32(uint32x4_t a, int bits) {
    MCT_UNSIGNED_LANES(a.lane[i] >> bits);
}
static inline uint32x4_t vshlq_u32(uint32x4_t a, int32x4_t shift) {
    MCT_UNSIGNED_LANES(shift.lane[i] >= 0 ? a.lane[i] << shift.lane[i]
                                          : a.lane[i] >> -shift.lane[i]);
}
static inline int32x4_t vreinterpretq_s32_u32(uint32x4_t a) {
    MCT_LANES((int32_t)a.lane[i]);
}

/* ---- the loops ---- */

static inline int32x4_t mct_helium_dot4(const mct_helium_rows *rows, const int8_t *x) {
    const int8_t *w[4] = {rows->w0, rows->w1, rows->w2, rows->w3};
    int32x4_t sums = {{rows->sum0, rows->sum1, rows->sum2, rows->sum3}};
    for (int32_t l = 0; l < 4; l++) {
        for (int32_t k = 0; k < rows->depth; k++) {
            sums.lane[l] = (int32_t)((uint32_t)sums.lane[l] + (uint32_t)(x[k] * w[l][k]));
        }
    }
    return sums;
}
static inline int32x4_t mct_helium_row_sums(const mct_helium_rows *rows) {
    const int8_t *w[4] = {rows->w0, rows->w1, rows->w2, rows->w3};
    int32x4_t sums = {{rows->sum0, rows->sum1, rows->sum2, rows->sum3}};
    for (int32_t l = 0; l < 4; l++) {
        for (int32_t k = 0; k < rows->depth; k++) {
            sums.lane[l] += w[l][k];
        }
    }
    return sums;
}
static inline void mct_helium_positions(const mct_helium_quad *quad, const int8_t *x, int8_t *y,
                                        int32_t count) {
    const int32_t low = quad->low, high = quad->high;
    for (; count > 0; count--, x += quad->x_step, y += quad->y_step) {
        const int32x4_t sums = mct_helium_dot4(&quad->rows, x);
        for (int32_t l = 0; l < 4; l++) {
            int32_t v = mct_helium_rounded_high(sums.lane[l], quad->mult_q31[l]);
            v = low >= quad->zero_point ? v : v + (v >> 31);
            v = mct_helium_rounding_shift(v, quad->shift[l]) + quad->zero_point;
            y[l] = (int8_t)(v < low ? low : (v > high ? high : v));
        }
    }
}
static inline void mct_helium_copy(int8_t *to, const int8_t *from, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = from[i];
    }
}
static inline void mct_helium_fill(int8_t *to, int8_t value, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = value;
    }
}
static inline int32_t mct_helium_sum(const int8_t *from, int32_t count) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += from[i];
    }
    return sum;
}

static inline void mct_helium_strew(const mct_helium_block *b) {
    for (int32_t row = 0; row < b->rows; row++) {
        for (int32_t i = 0; i < b->columns; i++) {
            b->to[row * b->to_row + i * b->to_column] =
                b->from[row * b->from_row + i * b->from_column];
        }
    }
}
static inline void mct_helium_strew_by(int8_t *to, const uint16_t *put, const int8_t *from,
                                       const uint16_t *at, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[put[i]] = from[at[i]];
    }
}
static inline int32x4_t mct_helium_windows(const int8_t **at, int32_t step, const int8x16_t *w,
                                           int32_t vectors) {
    int32x4_t sums;
    for (int32_t l = 0; l < 4; l++, *at += step) {
        sums.lane[l] = 0;
        for (int32_t i = 0; i < vectors; i++) {
            sums.lane[l] = vmladavaq_s8(sums.lane[l], vldrbq_s8(*at + 16 * i), w[i]);
        }
    }
    return sums;
}

#endif
