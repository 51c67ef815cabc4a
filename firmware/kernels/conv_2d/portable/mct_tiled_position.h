/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a convolution at one position, as a fully connected layer has it: several channels at a time. */
#ifndef MCT_TILED_POSITION_H
#define MCT_TILED_POSITION_H

#include "mct_fixedpoint.h"
#include "mct_tiled.h"
#include "mct_window.h"

/* Rows of weights at a time: four need twelve registers, a Cortex-M0+ has eight for this. */
#if MCT_TILED_TERMS == 1 /* as there */
#define MCT_TILED_ROWS 2
#else
#define MCT_TILED_ROWS 4
#endif

/* sums[i] += sum over k < terms of (x[k] - zero_point) * w[i * step + k], for two rows of weights, or for one
 * if step is 0. */
static MCT_APART void mct_tiled_two_rows(const int8_t *x, int32_t zero_point, const int8_t *w,
                                         int32_t step, int32_t terms, int32_t *sums) {
    const mct_tiled_two before = {sums[0], step != 0 ? sums[1] : 0};
    const mct_tiled_two made = mct_tiled_add_one(x, zero_point, w, step, terms, before);
    sums[0] = made.first;
    if (step != 0) {
        sums[1] = made.second;
    }
}

#if MCT_TILED_ROWS == 4
#define MCT_TILED_EACH_ROW(n)                                                                      \
    {                                                                                              \
        const int32_t value = x[n] - zero_point;                                                   \
        s0 += value * w[n];                                                                        \
        s1 += value * w1[n];                                                                       \
        s2 += value * w2[n];                                                                       \
        s3 += value * w3[n];                                                                       \
    }

/* The same for four rows. */
static MCT_APART void mct_tiled_four_rows(const int8_t *x, int32_t zero_point, const int8_t *w,
                                          int32_t step, int32_t terms, int32_t *sums) {
    const int8_t *w1 = w + step, *w2 = w1 + step, *w3 = w2 + step;
    int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
    for (; terms >= 4; terms -= 4, x += 4, w += 4, w1 += 4, w2 += 4, w3 += 4) {
        MCT_TILED_EACH_ROW(0)
        MCT_TILED_EACH_ROW(1)
        MCT_TILED_EACH_ROW(2)
        MCT_TILED_EACH_ROW(3)
    }
    for (int32_t k = 0; k < terms; k++) {
        MCT_TILED_EACH_ROW(k)
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}
#endif

/* What a position's window reads: runs of terms. */
typedef struct {
    int32_t runs, terms;
    const int8_t *x; /* of the first run */
    int32_t w;       /* its first term's place in a row of weights */
    int32_t x_next, w_next, zero_point;
} mct_tiled_runs;

/* Adds the runs `begin` … of `rows` channels to their sums. w: the first one's row */
static inline void mct_tiled_add_runs(const mct_tiled_runs *runs, const int8_t *w, int32_t depth,
                                      int32_t rows, int32_t *sums) {
    const int8_t *x = runs->x;
    w += runs->w;
    for (int32_t run = 0; run < runs->runs; run++, x += runs->x_next, w += runs->w_next) {
        const int8_t *row = w;
        int32_t o = 0;
#if MCT_TILED_ROWS == 4
        for (; o + 4 <= rows; o += 4, row += 4 * depth) {
            mct_tiled_four_rows(x, runs->zero_point, row, depth, runs->terms, sums + o);
        }
#endif
        for (; o < rows; o += 2, row += 2 * depth) {
            const int32_t step = o + 1 < rows ? depth : 0;
            mct_tiled_two_rows(x, runs->zero_point, row, step, runs->terms, sums + o);
        }
    }
}

#endif
