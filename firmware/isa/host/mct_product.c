/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_product.h"

#include "mct_dot.h"
#include "mct_threads.h"

/* Accumulators stay in registers: 8 rows of two vectors where there are 32 registers of 512 bits,
 * else 4, of which each may have two parts. */
#define MCT_TILE_ROWS (MCT_LANES == 16 ? 8 : 4)

/* Of the factors held at once: 64 KB of the first, 128 KB as pairs, which stay in a second-level
 * cache, at most 16 and 32 KB of the second, and 64 KB of sums. */
#define MCT_BLOCK_DEPTH 512
#define MCT_BLOCK_COLUMNS 128

/* The depth that is filled is a multiple of this: zero points come after it. */
#if MCT_MAY_HAVE_DOT
#define MCT_WHOLE_DEPTH MCT_DOT_DEPTH
#else
#define MCT_WHOLE_DEPTH 4
#endif

static inline int32_t mct_smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}
static inline int32_t mct_round_up(int32_t x, int32_t to) {
    return (x + to - 1) / to * to;
}

/* The factors are multiplied by words of 32 bits: quads of int8 where there are instructions for
 * them, whose excess is subtracted from the sums, else pairs of int16, less their zero points. */
#if MCT_HAS_DOT4
#define MCT_WORD 4
typedef int8_t mct_element;
typedef mct_v32 mct_acc;

static inline void mct_acc_add(mct_acc *acc, mct_v32 a, mct_v32 b) {
    *acc = mct_v_dot4(*acc, b, a);
}
static inline mct_v32 mct_acc_sum(mct_acc acc) {
    return acc;
}
#else
#define MCT_WORD 2
typedef int16_t mct_element;
typedef mct_v_parts mct_acc;

static inline void mct_acc_add(mct_acc *acc, mct_v32 a, mct_v32 b) {
    mct_v_add_dot(acc, a, b);
}
static inline mct_v32 mct_acc_sum(mct_acc acc) {
    return mct_v_sum(acc);
}
#endif

/* Factors of a block of rows and MCT_TILE_COLUMNS columns, and the sums of MCT_BLOCK_COLUMNS; stride:
 * the depth with what is filled up. row, word: how far the next ones of `a` are. excess: of a sum, what
 * is of its row, and of its column. */
typedef struct {
    int32_t rows, columns, depth, stride;
    int32_t row, word;
    int32_t row_excess[MCT_BLOCK_ROWS], column_excess[MCT_TILE_COLUMNS];
    _Alignas(64) int8_t b[MCT_BLOCK_DEPTH * MCT_TILE_COLUMNS];
    _Alignas(64) int8_t a[MCT_BLOCK_ROWS * MCT_BLOCK_DEPTH + 64];
    _Alignas(64) int32_t sums[MCT_BLOCK_ROWS * MCT_BLOCK_COLUMNS];
#if !MCT_HAS_DOT4
    int16_t b_pairs[MCT_BLOCK_DEPTH * MCT_TILE_COLUMNS];
    int16_t a_pairs[MCT_BLOCK_ROWS * MCT_BLOCK_DEPTH + 2 * MCT_LANES];
#endif
#if MCT_MAY_HAVE_DOT
    int uses_dot;
    mct_dot dot;
#endif
} mct_block;

/* sums (+)= a . b for MCT_TILE_ROWS rows and `vectors` vectors of columns; the rows of sums are
 * MCT_BLOCK_COLUMNS apart. */
__attribute__((always_inline)) static inline void mct_multiply(int vectors, const mct_block *block,
                                                               const mct_element *a,
                                                               const mct_element *b, int32_t r0,
                                                               int add, int32_t *sums) {
    const int32_t row = block->row, word = block->word, words = block->stride / MCT_WORD;
    mct_acc acc[MCT_TILE_ROWS][2];
    memset(acc, 0, sizeof acc);
    for (int32_t k = 0; k < words; k++) {
        mct_v32 bs[2];
        for (int v = 0; v < vectors; v++) {
            bs[v] = mct_v_held(mct_v_load(b + (k * MCT_TILE_COLUMNS + v * MCT_LANES) * MCT_WORD));
        }
        for (int r = 0; r < MCT_TILE_ROWS; r++) {
            int32_t of_row;
            memcpy(&of_row, a + (r0 + r) * row + k * word, sizeof of_row);
            for (int v = 0; v < vectors; v++) {
                mct_acc_add(&acc[r][v], mct_v_all(of_row), bs[v]);
            }
        }
    }
    for (int r = 0; r < MCT_TILE_ROWS; r++) {
        for (int v = 0; v < vectors; v++) {
            int32_t *to = sums + (r0 + r) * MCT_BLOCK_COLUMNS + v * MCT_LANES;
            mct_v32 sum = mct_acc_sum(acc[r][v]);
#if MCT_HAS_DOT4
            sum -= mct_v_load(block->column_excess + v * MCT_LANES) + block->row_excess[r0 + r];
#endif
            mct_v_store(to, add ? mct_v_load(to) + sum : sum);
        }
    }
}

static void mct_multiply_block(mct_block *block, int add, int32_t *sums) {
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_multiply(&block->dot, block->rows, add, sums, MCT_BLOCK_COLUMNS);
        return;
    }
#endif
#if MCT_HAS_DOT4
    const mct_element *a = block->a, *b = block->b;
#else
    const mct_element *a = block->a_pairs, *b = block->b_pairs;
#endif
    for (int32_t r = 0; r < block->rows; r += MCT_TILE_ROWS) {
        if (block->columns <= MCT_LANES) {
            mct_multiply(1, block, a, b, r, add, sums);
        } else {
            mct_multiply(2, block, a, b, r, add, sums);
        }
    }
}

#if MCT_HAS_DOT4 || MCT_MAY_HAVE_DOT
/* (a - za) . (b - zb) is a . b, less zb times the sum of a row of `a`, less za times the sum of a
 * column of b, plus za zb for each of the depth. */
static void mct_set_row_excess(const mct_product *p, int32_t offset, mct_block *block, int32_t row,
                               int32_t sum) {
    const int32_t both = block->stride * p->a_zero_point * p->b_zero_point;
    block->row_excess[row] = (offset + p->b_zero_point) * sum - both;
}
#endif

#if MCT_HAS_DOT4
#define MCT_B_OFFSET 128 /* b is made unsigned */

/* Quads are multiplied by ones; in what is read after the end of a row, by zeros. */
static int32_t mct_sum_row(const int8_t *a, int32_t count) {
    const mct_v32 ones = mct_v_all(0x01010101);
    mct_v32 sums = {0};
    for (int32_t d = 0; d < count; d += 4 * MCT_LANES) {
        const mct_v32 used = (mct_v32)(mct_v_count(d / 4) < (uint32_t)count / 4);
        sums = mct_v_dot4(sums, ones & used, mct_v_load(a + d));
    }
    return mct_v_total(sums);
}

static void mct_take_a(const mct_product *p, mct_block *block) {
    block->row = p->fill_a != NULL ? block->stride : 4;
    block->word = p->fill_a != NULL ? 4 : 4 * MCT_BLOCK_ROWS;
    if (p->fill_a != NULL) {
        for (int32_t r = 0; r < mct_round_up(block->rows, MCT_TILE_ROWS); r++) {
            const int32_t sum = mct_sum_row(block->a + r * block->stride, block->stride);
            mct_set_row_excess(p, MCT_B_OFFSET, block, r, sum);
        }
        return;
    }
    const mct_v32 ones = mct_v_all(0x01010101);
    for (int32_t r = 0; r < block->rows; r += MCT_LANES) {
        mct_v32 sums = {0};
        for (int32_t d = 0; d < block->stride; d += 4) {
            sums = mct_v_dot4(sums, ones, mct_v_load(block->a + d * MCT_BLOCK_ROWS + 4 * r));
        }
        for (int32_t l = 0; l < MCT_LANES; l++) {
            mct_set_row_excess(p, MCT_B_OFFSET, block, r + l, sums[l]);
        }
    }
}

static void mct_take_b(const mct_product *p, mct_block *block) {
    const mct_v32 ones = mct_v_all(0x01010101);
    for (int32_t c = 0; c < MCT_TILE_COLUMNS; c += MCT_LANES) {
        mct_v32 sums = {0};
        for (int32_t d = 0; d < block->stride; d += 4) {
            int8_t *at = block->b + d * MCT_TILE_COLUMNS + 4 * c;
            const mct_v32 quads = mct_v_load(at);
            sums = mct_v_dot4(sums, ones, quads);
            mct_v_store(at, quads ^ (mct_v32)mct_v_all((int32_t)0x80808080u));
        }
        mct_v_store(block->column_excess + c, sums * p->a_zero_point);
    }
}
#else
/* Quads as two rows of pairs. */
static void mct_widen_quads(const int8_t *quads, int32_t depth, int32_t count, int32_t width,
                            int32_t zero_point, int16_t *pairs) {
    for (int32_t d = 0; d < depth; d += 4) {
        for (int32_t c = 0; c < count; c += MCT_LANES) {
            const mct_v32 v = mct_v_load(quads + d * width + 4 * c);
            const mct_vu32 u = (mct_vu32)v;
            const mct_v32 first = ((mct_v32)(u << 24) >> 24) - zero_point;
            const mct_v32 second = ((mct_v32)(u << 16) >> 24) - zero_point;
            const mct_v32 third = ((mct_v32)(u << 8) >> 24) - zero_point;
            int16_t *to = pairs + d * width + 2 * c;
            mct_v_store(to, mct_v_pair(first, second));
            mct_v_store(to + 2 * width, mct_v_pair(third, (v >> 24) - zero_point));
        }
    }
}

static void mct_take_a(const mct_product *p, mct_block *block) {
    const int32_t numbers = mct_round_up(block->rows, MCT_TILE_ROWS) * block->stride;
    if (p->fill_a == NULL) {
        block->row = 2;
        block->word = 2 * MCT_BLOCK_ROWS;
        mct_widen_quads(block->a, block->stride, block->rows, MCT_BLOCK_ROWS, p->a_zero_point,
                        block->a_pairs);
        return;
    }
    block->row = block->stride;
    block->word = 2;
    for (int32_t i = 0; i < numbers; i += 2 * MCT_LANES) {
        mct_v_widen(block->a_pairs + i, block->a + i, p->a_zero_point);
    }
}

static void mct_take_b(const mct_product *p, mct_block *block) {
    mct_widen_quads(block->b, block->stride, block->columns, MCT_TILE_COLUMNS, p->b_zero_point,
                    block->b_pairs);
}
#endif

#if MCT_MAY_HAVE_DOT
_Static_assert(MCT_TILE_COLUMNS == MCT_DOT_COLUMNS, "a block is a block of sdot, too");

static void mct_dot_take_a(const mct_product *p, mct_block *block) {
    mct_dot *dot = &block->dot;
    dot->a = block->a;
    dot->row = p->fill_a != NULL ? block->stride : 4;
    dot->quad = p->fill_a != NULL ? 4 : 4 * MCT_BLOCK_ROWS;
    dot->depth = block->stride;
    dot->of_rows = block->row_excess;
    for (int32_t r = 0; r < block->rows; r += MCT_DOT_TILE) {
        int32_t sums[MCT_DOT_TILE] = {0};
        if (p->b_zero_point != 0) {
            mct_dot_sum_rows(dot, r, sums);
        }
        for (int32_t i = 0; i < MCT_DOT_TILE; i++) {
            mct_set_row_excess(p, 0, block, r + i, sums[i]);
        }
    }
}

static void mct_dot_take_b(const mct_product *p, mct_block *block) {
    block->dot.b = block->b;
    block->dot.of_columns = block->column_excess;
    mct_dot_sum_columns(&block->dot, block->column_excess);
    for (int32_t c = 0; c < MCT_TILE_COLUMNS; c++) {
        block->column_excess[c] *= p->a_zero_point;
    }
}
#endif

/* The rows, filled up with zero points to a whole depth and to whole tiles. */
static void mct_fill_a(const mct_product *p, int32_t row, int32_t k, mct_block *block) {
    const int32_t stride = block->stride, depth = block->depth;
    if (p->fill_a != NULL) {
        p->fill_a(p->job, row, block->rows, k, depth, stride, block->a);
        for (int32_t r = 0; r < block->rows && stride > depth; r++) {
            memset(block->a + r * stride + depth, p->a_zero_point, (size_t)(stride - depth));
        }
        const int32_t missing = mct_round_up(block->rows, 8) - block->rows;
        memset(block->a + block->rows * stride, p->a_zero_point, (size_t)(missing * stride));
    } else {
        const int32_t filled = mct_round_up(depth, 4) * MCT_BLOCK_ROWS;
        p->fill_a_quads(p->job, k, depth, row, block->rows, block->a);
        memset(block->a + filled, p->a_zero_point, (size_t)(stride * MCT_BLOCK_ROWS - filled));
    }
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_take_a(p, block);
        return;
    }
#endif
    mct_take_a(p, block);
}

static void mct_fill_b(const mct_product *p, int32_t k, int32_t column, mct_block *block) {
    const int32_t all = block->stride * MCT_TILE_COLUMNS;
    const int32_t whole = block->columns < MCT_TILE_COLUMNS ? 0 : block->depth / 4 * 4;
    const int32_t sure = whole * MCT_TILE_COLUMNS;
    memset(block->b + sure, p->b_zero_point, (size_t)(all - sure));
    p->fill_b(p->job, k, block->depth, column, block->columns, block->b);
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_take_b(p, block);
        return;
    }
#endif
    mct_take_b(p, block);
}

/* Some of the depth, k … k + block->depth - 1, of the columns `first` … end - 1, at most
 * MCT_BLOCK_COLUMNS of them; the last of the depth hands the sums over, whole lines of a result that
 * is stored row by row. */
static void mct_product_columns(const mct_product *p, int32_t row, int32_t k, int32_t first,
                                int32_t end, mct_block *block) {
    for (int32_t column = first; column < end; column += MCT_TILE_COLUMNS) {
        block->columns = mct_smaller(end - column, MCT_TILE_COLUMNS);
        mct_fill_b(p, k, column, block);
        mct_multiply_block(block, k > 0, block->sums + column - first);
    }
    if (k + block->depth == p->depth) {
        const mct_tile tile = {row,         block->rows,       first,
                               end - first, MCT_BLOCK_COLUMNS, block->sums};
        p->take(p->result, &tile);
    }
}

/* The rows row … row_end - 1 of the columns column … column_end - 1. */
typedef struct {
    int32_t row, row_end, column, column_end;
} mct_range;

static void mct_product_range(const mct_product *p, const mct_range *range) {
    mct_block block;
#if MCT_MAY_HAVE_DOT
    block.uses_dot = mct_has_dot();
#endif
    for (int32_t row = range->row; row < range->row_end; row += MCT_BLOCK_ROWS) {
        int32_t filled = -1; /* the k that block.a begins with */
        block.rows = mct_smaller(range->row_end - row, MCT_BLOCK_ROWS);
        for (int32_t c = range->column; c < range->column_end; c += MCT_BLOCK_COLUMNS) {
            const int32_t end = mct_smaller(range->column_end, c + MCT_BLOCK_COLUMNS);
            for (int32_t k = 0; k < p->depth; k += MCT_BLOCK_DEPTH) {
                block.depth = mct_smaller(p->depth - k, MCT_BLOCK_DEPTH);
                block.stride = mct_round_up(block.depth, MCT_WHOLE_DEPTH);
                if (filled != k) {
                    mct_fill_a(p, row, k, &block);
                    filled = k;
                }
                mct_product_columns(p, row, k, c, end, &block);
            }
        }
    }
}

/* The first row from `row` on whose first number is a multiple of 8. */
static int32_t mct_whole_byte(const mct_product *p, int32_t row) {
    while (row < p->rows && (p->first + (int64_t)row * p->columns) % 8 != 0) {
        row++;
    }
    return row;
}

/* Every part fills what it does not split: rows of the first factor cost a third as much as columns
 * of the second. */
static void mct_product_part(const void *product, int32_t part, int32_t parts) {
    const mct_product *p = product;
    mct_range range = {0, p->rows, 0, p->columns};
    if (p->columns % 8 == 0 && p->first % 8 == 0 && 3 * p->columns > p->rows) {
        range.column = mct_part_begin(p->columns, part, parts, MCT_TILE_COLUMNS);
        range.column_end = mct_part_begin(p->columns, part + 1, parts, MCT_TILE_COLUMNS);
    } else {
        range.row = mct_whole_byte(p, mct_part_begin(p->rows, part, parts, 8));
        range.row_end = mct_whole_byte(p, mct_part_begin(p->rows, part + 1, parts, 8));
        range.row = part == 0 ? 0 : range.row;
    }
    mct_product_range(p, &range);
}

void mct_product_run(const mct_product *p) {
    const int64_t products = (int64_t)p->rows * p->columns * p->depth;
    mct_threads_run(mct_product_part, p, mct_threads_for(products));
}

void mct_product_run_alone(const mct_product *p) {
    mct_product_part(p, 0, 1);
}
