/* Sums of products, sums[row][column] = sum over k of a[row][k] * b[k][column], in register tiles:
 * what a convolution, its input gradient and its weight gradient have in common.
 *
 * A job supplies the two factors as int16, block by block, and takes the sums tile by tile. The
 * sums must fit int32. */
#ifndef MCT_PRODUCT_H
#define MCT_PRODUCT_H

#include "mct_simd.h"
#include "mct_tile.h"

#define MCT_TILE_COLUMNS (2 * MCT_LANES)

typedef struct {
    int32_t rows, columns, depth;
    int32_t first; /* which number of its tensor the result's first one is: bits share bytes */
    const void *job;
    int32_t a_zero_point, b_zero_point; /* the factors are int8, less these */

    /* a[r * stride + d] = factor at (row + r, k + d) for r < rows, d < depth; row by row, each may
     * overwrite MCT_LANES - 1 elements after it */
    void (*fill_a)(const void *job, int32_t row, int32_t rows, int32_t k, int32_t depth,
                   int32_t stride, int16_t *a);

    /* b[d / 2][c][d % 2] = factor at (k + d, column + c) for d < depth, c < columns, in rows of
     * MCT_TILE_COLUMNS pairs; all else is 0 already */
    void (*fill_b)(const void *job, int32_t k, int32_t depth, int32_t column, int32_t columns,
                   int16_t *b);

    /* called by several threads, for different tiles; the first numbers of their results are
     * multiples of 8 */
    mct_take *take;
    void *result;
} mct_product;

/* Needs 300 KB of stack. A factor that is filled and a result are of one thread alone. */
void mct_product_run(const mct_product *product);

/* The same by this thread alone, which may be one of several. */
void mct_product_run_alone(const mct_product *product);

/* For fill_b: pairs of two rows of int8, less zero_point; NULL stands for a row of zeros. */
static inline void mct_fill_pairs(const int8_t *first, const int8_t *second, int32_t columns,
                                  int32_t zero_point, int16_t *b) {
    const mct_v32 zero = {0};
    for (int32_t c = 0; c < columns; c += MCT_LANES) {
        const int32_t lanes = columns - c;
        const mct_v32 one = first != NULL ? mct_v_load_s8(first + c, lanes) - zero_point : zero;
        const mct_v32 two = second != NULL ? mct_v_load_s8(second + c, lanes) - zero_point : zero;
        mct_v_store(b + 2 * c, mct_v_pair(one, two));
    }
}

/* For fill_b: the pairs of four numbers of int8, less zero_point, that lie beside each other; columns
 * are `step` apart. */
static inline void mct_fill_four(const int8_t *at, int32_t step, int32_t columns,
                                 int32_t zero_point, int16_t *b) {
    int32_t words[MCT_TILE_COLUMNS] = {0};
    for (int32_t c = 0; c < columns; c++) {
        memcpy(&words[c], at + c * step, sizeof words[c]);
    }
    for (int32_t c = 0; c < columns; c += MCT_LANES) {
        const mct_v32 v = mct_v_load(words + c);
        const mct_vu32 u = (mct_vu32)v;
        const mct_v32 first = ((mct_v32)(u << 24) >> 24) - zero_point;
        const mct_v32 second = ((mct_v32)(u << 16) >> 24) - zero_point;
        const mct_v32 third = ((mct_v32)(u << 8) >> 24) - zero_point;
        mct_v_store(b + 2 * c, mct_v_pair(first, second));
        mct_v_store(b + 2 * (MCT_TILE_COLUMNS + c), mct_v_pair(third, (v >> 24) - zero_point));
    }
}

/* Four numbers of each of MCT_LANES rows; the next one of a row is `step` further. */
static inline void mct_turn(const int8_t *at, int32_t step, int32_t zero_point, int32_t stride,
                            int16_t *a) {
    mct_v32 v[4];
    for (int32_t d = 0; d < 4; d++) {
        v[d] = mct_v_load_s8(at + d * step, MCT_LANES) - zero_point;
    }
    const mct_v32 first = mct_v_pair(v[0], v[1]), second = mct_v_pair(v[2], v[3]);
    const mct_v32 even = mct_v_interleave((mct_v64)first, (mct_v64)second);
    const mct_v32 odd = mct_v_interleave((mct_v64)mct_v_odd(first), (mct_v64)mct_v_odd(second));
    int32_t words[2][MCT_LANES];
    mct_v_store(words[0], even);
    mct_v_store(words[1], odd);
    for (int32_t r = 0; r < MCT_LANES; r++) {
        memcpy(a + r * stride, words[r % 2] + r / 2 * 2, 4 * sizeof *a);
    }
}

/* For fill_a: rows that lie beside each other, number by number: a[r * stride + d] = at[r + d * step],
 * less zero_point. */
static inline void mct_fill_turned(const int8_t *at, int32_t step, int32_t rows, int32_t depth,
                                   int32_t zero_point, int32_t stride, int16_t *a) {
    const int32_t whole_rows = rows / MCT_LANES * MCT_LANES, whole_depth = depth / 4 * 4;
    for (int32_t r = 0; r < whole_rows; r += MCT_LANES) {
        for (int32_t d = 0; d < whole_depth; d += 4) {
            mct_turn(at + r + d * step, step, zero_point, stride, a + r * stride + d);
        }
    }
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t d = r < whole_rows ? whole_depth : 0; d < depth; d++) {
            a[r * stride + d] = (int16_t)(at[r + d * step] - zero_point);
        }
    }
}

#endif
