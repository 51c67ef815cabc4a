/* SPDX-License-Identifier: Apache-2.0 */
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

int mct_has_dot(void) {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

static const int8_t *mct_dot_at(const mct_dot *dot, int32_t row, int32_t d) {
    return dot->a + row * dot->row + d / 4 * dot->quad;
}

MCT_WITH_DOT void mct_dot_sum_rows(const mct_dot *dot, int32_t row, int32_t *sums) {
    const int8x16_t ones = vdupq_n_s8(1);
    if (dot->row == 4) {
        int32x4_t acc[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        for (int32_t d = 0; d < dot->depth; d += 4) {
            const int8_t *from = mct_dot_at(dot, row, d);
            acc[0] = vdotq_s32(acc[0], vld1q_s8(from), ones);
            acc[1] = vdotq_s32(acc[1], vld1q_s8(from + 16), ones);
        }
        vst1q_s32(sums, acc[0]);
        vst1q_s32(sums + 4, acc[1]);
        return;
    }
    for (int32_t r = 0; r < MCT_DOT_TILE; r++) {
        int32x4_t acc = vdupq_n_s32(0);
        for (int32_t d = 0; d < dot->depth; d += 16) {
            acc = vdotq_s32(acc, vld1q_s8(mct_dot_at(dot, row + r, d)), ones);
        }
        sums[r] = vaddvq_s32(acc);
    }
}

MCT_WITH_DOT void mct_dot_sum_columns(const mct_dot *dot, int32_t *sums) {
    const int8x16_t ones = vdupq_n_s8(1);
    int32x4_t acc[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int32_t d = 0; d < dot->depth; d += 4) {
        const int8_t *from = dot->b + d * MCT_DOT_COLUMNS;
        acc[0] = vdotq_s32(acc[0], vld1q_s8(from), ones);
        acc[1] = vdotq_s32(acc[1], vld1q_s8(from + 16), ones);
    }
    vst1q_s32(sums, acc[0]);
    vst1q_s32(sums + 4, acc[1]);
}

MCT_WITH_DOT static void mct_dot_store(const mct_dot *dot, int32_t row, int32x4_t acc[2], int add,
                                       int32_t *sums) {
    const int32x4_t of_row = vdupq_n_s32(dot->of_rows[row]);
    for (int v = 0; v < 2; v++) {
        const int32x4_t excess = vaddq_s32(of_row, vld1q_s32(dot->of_columns + 4 * v));
        const int32x4_t sum = vsubq_s32(acc[v], excess);
        vst1q_s32(sums + 4 * v, add ? vaddq_s32(vld1q_s32(sums + 4 * v), sum) : sum);
    }
}

/* A quad of four rows of the depth, and of two vectors of columns. */
MCT_WITH_DOT static inline void mct_dot_four_rows(int32x4_t acc[4][2], int8x16_t a,
                                                  const int8x16_t b[2]) {
    for (int v = 0; v < 2; v++) {
        acc[0][v] = vdotq_laneq_s32(acc[0][v], b[v], a, 0);
        acc[1][v] = vdotq_laneq_s32(acc[1][v], b[v], a, 1);
        acc[2][v] = vdotq_laneq_s32(acc[2][v], b[v], a, 2);
        acc[3][v] = vdotq_laneq_s32(acc[3][v], b[v], a, 3);
    }
}

/* Sixteen numbers of the depth of a row, and of two vectors of columns. */
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
    int32x4_t acc[MCT_DOT_TILE][2];
    memset(acc, 0, sizeof acc);
    for (int32_t d = 0; d < dot->depth; d += 16) {
        int8x16_t b[8];
        for (int i = 0; i < 8; i++) {
            b[i] = vld1q_s8(dot->b + d * MCT_DOT_COLUMNS + 16 * i);
        }
        if (dot->row == 4) {
            for (int q = 0; q < 4; q++) {
                const int8_t *from = mct_dot_at(dot, row, d + 4 * q);
                mct_dot_four_rows(acc, vld1q_s8(from), b + 2 * q);
                mct_dot_four_rows(acc + 4, vld1q_s8(from + 16), b + 2 * q);
            }
            continue;
        }
        for (int r = 0; r < MCT_DOT_TILE; r++) {
            mct_dot_sixteen(acc[r], vld1q_s8(mct_dot_at(dot, row + r, d)), b);
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
