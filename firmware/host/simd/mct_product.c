#include "mct_product.h"

#include <stddef.h>

/* Accumulators stay in registers: 8 rows of two vectors where there are 32 of them, 4 else. */
#define MCT_TILE_ROWS (MCT_LANES == 16 ? 8 : 4)
#define MCT_BLOCK_ROWS 128
#define MCT_BLOCK_DEPTH 1024
#define MCT_BLOCK_A 32768 /* elements of `a` held at once */

static inline int32_t mct_smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}
static inline int32_t mct_round_up(int32_t x, int32_t to) {
    return (x + to - 1) / to * to;
}

/* One tile: sums[row][v] (+)= a[row] . b, `vectors` vectors wide. */
__attribute__((always_inline)) static inline void mct_tile(int vectors, const int16_t *a,
                                                           int32_t stride, const int16_t *b,
                                                           int32_t pairs, int first,
                                                           int32_t *sums) {
    mct_v32 acc[MCT_TILE_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < MCT_TILE_ROWS; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            acc[r][v] =
                first ? (mct_v32){0} : mct_v_load(sums + r * MCT_TILE_COLUMNS + v * MCT_LANES);
        }
    }
    for (int32_t k = 0; k < pairs; k++) {
        mct_v32 bs[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            bs[v] = mct_v_load(b + ((ptrdiff_t)k * MCT_TILE_COLUMNS + v * MCT_LANES) * 2);
        }
#pragma GCC unroll 8
        for (int r = 0; r < MCT_TILE_ROWS; r++) {
            int32_t pair;
            memcpy(&pair, a + (ptrdiff_t)r * stride + 2 * k, sizeof pair);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                acc[r][v] = mct_v_dot(acc[r][v], mct_v_all(pair), bs[v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < MCT_TILE_ROWS; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            mct_v_store(sums + r * MCT_TILE_COLUMNS + v * MCT_LANES, acc[r][v]);
        }
    }
}

/* All tiles of a block of rows and a panel of columns. */
static void mct_panel(int32_t rows, int32_t columns, const int16_t *a, int32_t stride,
                      const int16_t *b, int32_t pairs, int first, int32_t *sums) {
    for (int32_t r = 0; r < rows; r += MCT_TILE_ROWS) {
        const int16_t *as = a + (ptrdiff_t)r * stride;
        int32_t *out = sums + r * MCT_TILE_COLUMNS;
        if (columns <= MCT_LANES) {
            mct_tile(1, as, stride, b, pairs, first, out);
        } else {
            mct_tile(2, as, stride, b, pairs, first, out);
        }
    }
}

static void mct_fill_a(const mct_product *p, int32_t row, int32_t rows, int32_t k, int32_t depth,
                       int32_t stride, int16_t *a) {
    p->fill_a(p->job, row, rows, k, depth, stride, a);
    if (stride > depth) {
        for (int32_t r = 0; r < rows; r++) {
            a[(ptrdiff_t)r * stride + depth] = 0;
        }
    }
    const int32_t padded = mct_round_up(rows, MCT_TILE_ROWS);
    memset(a + (ptrdiff_t)rows * stride, 0, (size_t)((padded - rows) * stride) * sizeof *a);
}

static void mct_fill_b(const mct_product *p, int32_t k, int32_t depth, int32_t column,
                       int32_t columns, int32_t stride, int16_t *b) {
    if (columns < MCT_TILE_COLUMNS || stride > depth) {
        memset(b, 0, (size_t)(stride * MCT_TILE_COLUMNS) * sizeof *b);
    }
    p->fill_b(p->job, k, depth, column, columns, b);
}

void mct_product_run(const mct_product *p) {
    int16_t a[MCT_BLOCK_A];
    int16_t b[MCT_BLOCK_DEPTH * MCT_TILE_COLUMNS];
    int32_t sums[MCT_BLOCK_ROWS * MCT_TILE_COLUMNS];
    const int32_t block_depth = mct_smaller(p->depth, MCT_BLOCK_DEPTH);
    const int32_t fitting = MCT_BLOCK_A / mct_round_up(block_depth, 2);
    const int32_t block_rows = mct_smaller(fitting / MCT_TILE_ROWS * MCT_TILE_ROWS, MCT_BLOCK_ROWS);
    for (int32_t row = 0; row < p->rows; row += block_rows) {
        const int32_t rows = mct_smaller(p->rows - row, block_rows);
        int32_t filled = -1; /* the k that `a` begins with */
        for (int32_t column = 0; column < p->columns; column += MCT_TILE_COLUMNS) {
            const int32_t columns = mct_smaller(p->columns - column, MCT_TILE_COLUMNS);
            for (int32_t k = 0; k < p->depth; k += block_depth) {
                const int32_t depth = mct_smaller(p->depth - k, block_depth);
                const int32_t stride = mct_round_up(depth, 2);
                if (filled != k) {
                    mct_fill_a(p, row, rows, k, depth, stride, a);
                    filled = k;
                }
                mct_fill_b(p, k, depth, column, columns, stride, b);
                mct_panel(rows, columns, a, stride, b, stride / 2, k == 0, sums);
            }
            p->take(p->result, row, rows, column, columns, sums);
        }
    }
}
