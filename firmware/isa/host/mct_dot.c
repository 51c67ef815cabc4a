#include "mct_dot.h"

#if MCT_MAY_HAVE_DOT
#include <arm_neon.h>
#include <string.h>
#include <sys/auxv.h>

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1 << 20)
#endif

/* For these functions alone: the others run on every AArch64. */
#define MCT_WITH_DOT __attribute__((target("arch=armv8.2-a+dotprod")))

#define MCT_DOT_TILE 8 /* rows whose sums stay in registers */

int mct_has_dot(void) {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

static int32_t mct_dot_round_up(int32_t x, int32_t to) {
    return (x + to - 1) / to * to;
}

/* A row of factors, and the sum of them. */
static int32_t mct_dot_narrow(int8_t *to, const int16_t *from, int32_t depth, int32_t zero_point) {
    int32x4_t sums = vdupq_n_s32(0);
    int32_t d = 0;
    for (; d + 8 <= depth; d += 8) {
        const int16x8_t v = vld1q_s16(from + d);
        sums = vpadalq_s16(sums, v);
        vst1_s8(to + d, vmovn_s16(vaddq_s16(v, vdupq_n_s16((int16_t)zero_point))));
    }
    int32_t sum = vaddvq_s32(sums);
    for (; d < depth; d++) {
        sum += from[d];
        to[d] = (int8_t)(from[d] + zero_point);
    }
    return sum;
}

void mct_dot_take_a(mct_dot *dot, const int16_t *a, int32_t rows, int32_t depth) {
    dot->stride = mct_dot_round_up(depth, 16);
    for (int32_t r = 0; r < rows; r++) {
        int8_t *to = dot->a + r * dot->stride;
        dot->of_rows[r] = mct_dot_narrow(to, a + r * depth, depth, dot->a_zero_point);
        memset(to + depth, 0, (size_t)(dot->stride - depth));
    }
    for (int32_t r = rows; r < mct_dot_round_up(rows, MCT_DOT_TILE); r++) {
        memset(dot->a + r * dot->stride, 0, (size_t)dot->stride);
        dot->of_rows[r] = 0;
    }
}

/* Two numbers of each of eight columns, as bytes. */
static uint16x8_t mct_dot_pairs(const int16_t *b, int32_t zero_point) {
    const int16x8_t zero = vdupq_n_s16((int16_t)zero_point);
    const int8x8_t low = vmovn_s16(vaddq_s16(vld1q_s16(b), zero));
    return vreinterpretq_u16_s8(vmovn_high_s16(low, vaddq_s16(vld1q_s16(b + 8), zero)));
}

MCT_WITH_DOT void mct_dot_take_b(mct_dot *dot, const int16_t *b, int32_t depth) {
    const int8x16_t ones = vdupq_n_s8(1);
    int32x4_t sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int32_t d = 0; d < depth; d += 4) {
        const int16_t *from = b + d * MCT_DOT_COLUMNS;
        const uint16x8_t first = mct_dot_pairs(from, dot->b_zero_point);
        const uint16x8_t second = d + 2 < depth
                                      ? mct_dot_pairs(from + 2 * MCT_DOT_COLUMNS, dot->b_zero_point)
                                      : vdupq_n_u16(0);
        const int8x16_t low = vreinterpretq_s8_u16(vzip1q_u16(first, second));
        const int8x16_t high = vreinterpretq_s8_u16(vzip2q_u16(first, second));
        sums[0] = vdotq_s32(sums[0], low, ones);
        sums[1] = vdotq_s32(sums[1], high, ones);
        vst1q_s8(dot->b + d * MCT_DOT_COLUMNS, low);
        vst1q_s8(dot->b + d * MCT_DOT_COLUMNS + 16, high);
    }
    const int32_t end = mct_dot_round_up(depth, 4) * MCT_DOT_COLUMNS;
    memset(dot->b + end, 0, (size_t)(mct_dot_round_up(depth, 16) * MCT_DOT_COLUMNS - end));
    vst1q_s32(dot->of_columns, sums[0]);
    vst1q_s32(dot->of_columns + 4, sums[1]);
}

/* What the zero points make of the sums of a row: (a - za) . (b - zb) is a . b, less this. */
static int32x4_t mct_dot_excess(const mct_dot *dot, int32_t row, int32_t column) {
    const int32x4_t of_columns = vld1q_s32(dot->of_columns + column);
    const int32x4_t of_row = vdupq_n_s32(dot->of_rows[row]);
    return vmlaq_n_s32(vmulq_n_s32(of_columns, dot->a_zero_point), of_row, dot->b_zero_point);
}

MCT_WITH_DOT static void mct_dot_store(const mct_dot *dot, int32_t row, int32x4_t acc[2], int add,
                                       int32_t *sums) {
    for (int v = 0; v < 2; v++) {
        const int32x4_t sum = vsubq_s32(acc[v], mct_dot_excess(dot, row, 4 * v));
        vst1q_s32(sums + 4 * v, add ? vaddq_s32(vld1q_s32(sums + 4 * v), sum) : sum);
    }
}

/* Sixteen numbers of the depth of two vectors of columns. */
MCT_WITH_DOT static inline void mct_dot_sixteen(int32x4_t acc[2], int8x16_t a,
                                                const int8x16_t b[8]) {
    for (int v = 0; v < 2; v++) {
        acc[v] = vdotq_laneq_s32(acc[v], b[v], a, 0);
        acc[v] = vdotq_laneq_s32(acc[v], b[2 + v], a, 1);
        acc[v] = vdotq_laneq_s32(acc[v], b[4 + v], a, 2);
        acc[v] = vdotq_laneq_s32(acc[v], b[6 + v], a, 3);
    }
}

MCT_WITH_DOT static void mct_dot_tile(const mct_dot *dot, int32_t row, int add, int32_t *sums,
                                      int32_t step) {
    const int8_t *a = dot->a + row * dot->stride;
    int32x4_t acc[MCT_DOT_TILE][2];
    memset(acc, 0, sizeof acc);
    for (int32_t d = 0; d < dot->stride; d += 16) {
        int8x16_t b[8];
        for (int i = 0; i < 8; i++) {
            b[i] = vld1q_s8(dot->b + d * MCT_DOT_COLUMNS + 16 * i);
        }
        for (int r = 0; r < MCT_DOT_TILE; r++) {
            mct_dot_sixteen(acc[r], vld1q_s8(a + r * dot->stride + d), b);
        }
    }
    for (int r = 0; r < MCT_DOT_TILE; r++) {
        mct_dot_store(dot, row + r, acc[r], add, sums + r * step);
    }
}

MCT_WITH_DOT void mct_dot_multiply(const mct_dot *dot, int32_t rows, int add, int32_t *sums,
                                   int32_t step) {
    for (int32_t row = 0; row < rows; row += MCT_DOT_TILE) {
        mct_dot_tile(dot, row, add, sums + row * step, step);
    }
}
#endif
