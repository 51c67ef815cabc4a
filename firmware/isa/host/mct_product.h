/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products, sums[row][column] = sum over k of a[row][k] * b[k][column], in register tiles:
 * what a convolution, its input gradient and its weight gradient have in common.
 *
 * A job supplies the two factors as int8, block by block, and takes the sums tile by tile. The
 * sums must fit int32. */
#ifndef MCT_PRODUCT_H
#define MCT_PRODUCT_H

#include "mct_simd.h"
#include "mct_tile.h"

#define MCT_TILE_COLUMNS (2 * MCT_LANES)
#define MCT_BLOCK_ROWS 32

typedef struct {
    int32_t rows, columns, depth;
    int32_t first; /* which number of its tensor the result's first one is: bits share bytes */
    const void *job;
    int32_t a_zero_point, b_zero_point; /* are subtracted from the factors */

    /* The factor at (row, k) is a[row * a_step + k]. NULL: */
    const int8_t *a;
    int32_t a_step;

    /* a[r * stride + d] = factor at (row + r, k + d) for r < rows, d < depth; row by row, each may
     * overwrite 15 elements after it. NULL: */
    void (*fill_a)(const void *job, int32_t row, int32_t rows, int32_t k, int32_t depth,
                   int32_t stride, int8_t *a);

    /* a[d / 4][r][d % 4] = factor at (row + r, k + d) for r < rows, d < depth, in rows of
     * MCT_BLOCK_ROWS quads; the zero point after the depth */
    void (*fill_a_quads)(const void *job, int32_t k, int32_t depth, int32_t row, int32_t rows,
                         int8_t *a);

    /* b[d / 4][c][d % 4] = factor at (k + d, column + c) for d < depth, c < columns, in rows of
     * MCT_TILE_COLUMNS quads; after the depth all is the zero point already */
    void (*fill_b)(const void *job, int32_t k, int32_t depth, int32_t column, int32_t columns,
                   int8_t *b);

    /* called by several threads, for different tiles; the first numbers of their results are
     * multiples of 8 */
    mct_take *take;
    void *result;
} mct_product;

/* Needs 150 to 320 KB of stack (MCT_MOST_FRAME_BYTES). A factor that is filled and a result are of one thread alone. */
void mct_product_run(const mct_product *product);

/* The same by this thread alone, which may be one of several. */
void mct_product_run_alone(const mct_product *product);

/* `lanes` quads of four lines of int8; NULL stands for a line of zero points. */
__attribute__((always_inline)) static inline mct_v32
mct_line_quads(const int8_t *const lines[4], int32_t c, int32_t lanes, int32_t zero_point) {
    mct_v32 v[4];
    for (int i = 0; i < 4; i++) {
        v[i] = lines[i] != NULL ? mct_v_load_s8(lines[i] + c, lanes) : mct_v_all(zero_point);
    }
    return mct_v_quad(v[0], v[1], v[2], v[3]);
}

/* For quads: four lines of int8, of which each has `count` numbers that lie beside each other; NULL
 * stands for a line of zero points. Whole vectors are written. */
static inline void mct_fill_lines(const int8_t *const lines[4], int32_t count, int32_t zero_point,
                                  int8_t *quads) {
    int32_t c = 0;
    for (; c + MCT_LANES <= count; c += MCT_LANES) {
        mct_v_store(quads + 4 * c, mct_line_quads(lines, c, MCT_LANES, zero_point));
    }
    if (c < count) {
        mct_v_store(quads + 4 * c, mct_line_quads(lines, c, count - c, zero_point));
    }
}

/* For quads, `width` of them in a row: lines that are `step` apart, one for each of the depth. */
static inline void mct_fill_across(const int8_t *at, int32_t step, int32_t depth, int32_t count,
                                   int32_t zero_point, int32_t width, int8_t *quads) {
    for (int32_t d = 0; d < depth; d += 4) {
        const int8_t *lines[4];
        for (int32_t i = 0; i < 4; i++) {
            lines[i] = d + i < depth ? at + (d + i) * step : NULL;
        }
        mct_fill_lines(lines, count, zero_point, quads + d * width);
    }
}

/* For fill_b: where number d of the depth of column c lies. */
static inline int32_t mct_quad_place(int32_t d, int32_t c) {
    return (d / 4 * MCT_TILE_COLUMNS + c) * 4 + d % 4;
}

/* For fill_b: columns that are `step` apart, whose numbers along the depth lie beside each other. */
static inline void mct_fill_along(const int8_t *at, int32_t step, int32_t depth, int32_t columns,
                                  int8_t *b) {
    const int32_t whole = depth / 4;
    for (int32_t c = 0; c < columns; c += MCT_LANES) {
        const int32_t count = columns - c < MCT_LANES ? columns - c : MCT_LANES;
        for (int32_t q = 0; q < whole; q += MCT_LANES) {
            const int32_t quads = whole - q < MCT_LANES ? whole - q : MCT_LANES;
            mct_v32 v[MCT_LANES];
            for (int32_t l = 0; l < MCT_LANES; l++) {
                v[l] =
                    l < count ? mct_v_load_part(at + (c + l) * step + 4 * q, quads) : mct_v_all(0);
            }
            mct_v_turn(v);
            for (int32_t i = 0; i < quads; i++) {
                mct_v_store(b + mct_quad_place(4 * (q + i), c), v[i]);
            }
        }
        for (int32_t l = 0; l < count; l++) {
            const int8_t *from = at + (c + l) * step;
            for (int32_t d = 4 * whole; d < depth; d++) {
                b[mct_quad_place(d, c + l)] = from[d];
            }
        }
    }
}

#endif
