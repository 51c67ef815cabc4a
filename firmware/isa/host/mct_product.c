#include "mct_product.h"

#include "mct_dot.h"
#include "mct_threads.h"

/* Accumulators stay in registers: 8 rows of two vectors where there are 32 registers of 512 bits,
 * else 4, of which each may have two parts. */
#define MCT_TILE_ROWS (MCT_LANES == 16 ? 8 : 4)

/* Of the factors held at once: 128 KB of the first, which stay in a second-level cache, at most 32 KB
 * of the second, and 64 KB of sums. */
#define MCT_BLOCK_DEPTH 512
#define MCT_BLOCK_ROWS 128
#define MCT_BLOCK_COLUMNS 128

static inline int32_t mct_smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}
static inline int32_t mct_round_up(int32_t x, int32_t to) {
    return (x + to - 1) / to * to;
}

/* sums (+)= a . b for MCT_TILE_ROWS rows and `vectors` vectors of columns; the rows of sums are
 * MCT_BLOCK_COLUMNS apart. */
__attribute__((always_inline)) static inline void mct_multiply(int vectors, const int16_t *a,
                                                               int32_t stride, const int16_t *b,
                                                               int32_t pairs, int add,
                                                               int32_t *sums) {
    mct_v_parts acc[MCT_TILE_ROWS][2];
    memset(acc, 0, sizeof acc);
    for (int32_t k = 0; k < pairs; k++) {
        mct_v32 bs[2];
        for (int v = 0; v < vectors; v++) {
            bs[v] = mct_v_held(mct_v_load(b + (k * MCT_TILE_COLUMNS + v * MCT_LANES) * 2));
        }
        for (int r = 0; r < MCT_TILE_ROWS; r++) {
            int32_t pair;
            memcpy(&pair, a + r * stride + 2 * k, sizeof pair);
            for (int v = 0; v < vectors; v++) {
                mct_v_add_dot(&acc[r][v], mct_v_all(pair), bs[v]);
            }
        }
    }
    for (int r = 0; r < MCT_TILE_ROWS; r++) {
        for (int v = 0; v < vectors; v++) {
            int32_t *to = sums + r * MCT_BLOCK_COLUMNS + v * MCT_LANES;
            const mct_v32 sum = mct_v_sum(acc[r][v]);
            mct_v_store(to, add ? mct_v_load(to) + sum : sum);
        }
    }
}

/* Factors of a block of rows and MCT_TILE_COLUMNS columns, and the sums of MCT_BLOCK_COLUMNS;
 * stride: the depth, made even. dot: the factors once more, if it is used. */
typedef struct {
    int32_t rows, columns, depth, stride;
    int16_t a[MCT_BLOCK_ROWS * MCT_BLOCK_DEPTH + MCT_LANES];
    int16_t b[MCT_BLOCK_DEPTH * MCT_TILE_COLUMNS];
    int32_t sums[MCT_BLOCK_ROWS * MCT_BLOCK_COLUMNS];
#if MCT_MAY_HAVE_DOT
    int uses_dot;
    mct_dot dot;
#endif
} mct_block;

#if MCT_MAY_HAVE_DOT
_Static_assert(MCT_BLOCK_ROWS == MCT_DOT_ROWS && MCT_BLOCK_DEPTH == MCT_DOT_DEPTH &&
                   MCT_TILE_COLUMNS == MCT_DOT_COLUMNS,
               "a block is a block of int8, too");
#endif

static void mct_block_begin(const mct_product *p, mct_block *block) {
#if MCT_MAY_HAVE_DOT
    block->uses_dot = mct_has_dot();
    block->dot.a_zero_point = p->a_zero_point;
    block->dot.b_zero_point = p->b_zero_point;
#else
    (void)p;
    (void)block;
#endif
}

static void mct_multiply_block(mct_block *block, int add, int32_t *sums) {
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_multiply(&block->dot, block->rows, add, sums, MCT_BLOCK_COLUMNS);
        return;
    }
#endif
    for (int32_t r = 0; r < block->rows; r += MCT_TILE_ROWS) {
        const int16_t *a = block->a + r * block->stride;
        int32_t *tile = sums + r * MCT_BLOCK_COLUMNS;
        if (block->columns <= MCT_LANES) {
            mct_multiply(1, a, block->stride, block->b, block->stride / 2, add, tile);
        } else {
            mct_multiply(2, a, block->stride, block->b, block->stride / 2, add, tile);
        }
    }
}

/* The rows, filled up with zeros to an even depth and to whole tiles. */
static void mct_fill_a(const mct_product *p, int32_t row, int32_t k, mct_block *block) {
    const int32_t stride = block->stride;
    p->fill_a(p->job, row, block->rows, k, block->depth, stride, block->a);
    for (int32_t r = 0; r < block->rows && stride > block->depth; r++) {
        block->a[r * stride + block->depth] = 0;
    }
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_take_a(&block->dot, block->a, block->rows, stride);
        return;
    }
#endif
    const int32_t missing = mct_round_up(block->rows, MCT_TILE_ROWS) - block->rows;
    memset(block->a + block->rows * stride, 0, (size_t)(missing * stride) * sizeof *block->a);
}

static void mct_fill_b(const mct_product *p, int32_t k, int32_t column, mct_block *block) {
    if (block->columns < MCT_TILE_COLUMNS || block->stride > block->depth) {
        memset(block->b, 0, (size_t)(block->stride * MCT_TILE_COLUMNS) * sizeof *block->b);
    }
    p->fill_b(p->job, k, block->depth, column, block->columns, block->b);
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_take_b(&block->dot, block->b, block->stride);
    }
#endif
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
    mct_block_begin(p, &block);
    for (int32_t row = range->row; row < range->row_end; row += MCT_BLOCK_ROWS) {
        int32_t filled = -1; /* the k that block.a begins with */
        block.rows = mct_smaller(range->row_end - row, MCT_BLOCK_ROWS);
        for (int32_t c = range->column; c < range->column_end; c += MCT_BLOCK_COLUMNS) {
            const int32_t end = mct_smaller(range->column_end, c + MCT_BLOCK_COLUMNS);
            for (int32_t k = 0; k < p->depth; k += MCT_BLOCK_DEPTH) {
                block.depth = mct_smaller(p->depth - k, MCT_BLOCK_DEPTH);
                block.stride = mct_round_up(block.depth, 2);
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
