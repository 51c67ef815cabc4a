/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_product.h"

#include "mct_dot.h"
#include "mct_threads.h"

/* Accumulators stay in registers: 8 rows of two vectors where there are 32 registers of 512 bits,
 * else 4, of which each may have two parts. */
#define MCT_TILE_ROWS (MCT_LANES == 16 ? 8 : 4)

/* The depth that is filled is a multiple of MCT_WHOLE_DEPTH: zero points come after it. A depth of
 * MCT_BLOCK_DEPTH, 3 x 3 x 64, is multiplied at once. */
#if MCT_MAY_HAVE_DOT
#define MCT_WHOLE_DEPTH MCT_DOT_DEPTH
#define MCT_BLOCK_DEPTH 512
#else
#define MCT_WHOLE_DEPTH 4
#define MCT_BLOCK_DEPTH 576
#endif

/* Columns whose factors are held at once, 74 KB, or 147 KB as pairs, which stay in a second-level
 * cache; and rows of sums, of which all are held only if the depth takes several blocks. */
#define MCT_BLOCK_COLUMNS 128
#define MCT_DEEP_ROWS 128

static inline int32_t mct_smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}
static inline int32_t mct_round_up(int32_t x, int32_t to) {
    return (x + to - 1) / to * to;
}

/* The factors are multiplied by words of 32 bits: quads of int8 where there are instructions for
 * them, whose excess is subtracted from the sums, else two pairs of int16, less their zero points. */
#define MCT_SIGNS ((int32_t)0x80808080u) /* which makes bytes unsigned, 128 more */
#if MCT_HAS_DOT4
#define MCT_WORDS 1 /* of a quad */
typedef int8_t mct_element;
typedef mct_v32 mct_acc;

static inline void mct_acc_add(mct_acc *acc, mct_v32 a, mct_v32 b, int flips) {
    *acc = flips ? mct_v_dot4(*acc, a, b) : mct_v_dot4(*acc, b, a);
}
static inline mct_v32 mct_acc_sum(mct_acc acc) {
    return acc;
}
#else
#define MCT_WORDS 2
typedef int16_t mct_element;
typedef mct_v_parts mct_acc;

static inline void mct_acc_add(mct_acc *acc, mct_v32 a, mct_v32 b, int flips) {
    (void)flips;
    mct_v_add_dot(acc, a, b);
}
static inline mct_v32 mct_acc_sum(mct_acc acc) {
    return mct_v_sum(acc);
}
#endif

/* Where quads of rows lie, in bytes: from one row to the next, from one quad to the next, and from the
 * first word of a quad to its second. */
typedef struct {
    const void *at;
    int32_t row, quad, word;
} mct_rows;

/* Factors of a block, and sums; stride: the depth with what is filled up. excess: of a sum, what is of
 * its row, and of its column. flips: `a` is made unsigned, else b. keeps: all columns, not
 * only those of a tile. */
typedef struct {
    int32_t rows, columns, depth, stride;
    int32_t sum_stride; /* from one row of sums to the next */
    int flips, keeps;
    mct_rows a_rows;
    int32_t row_excess[MCT_BLOCK_ROWS], column_excess[MCT_BLOCK_COLUMNS];
    _Alignas(64) int8_t a[MCT_BLOCK_ROWS * MCT_BLOCK_DEPTH + 64];
    _Alignas(64) int32_t sums[MCT_DEEP_ROWS * MCT_BLOCK_COLUMNS];
#if MCT_HAS_DOT4 || MCT_MAY_HAVE_DOT
    _Alignas(64) int8_t b[MCT_BLOCK_DEPTH * MCT_BLOCK_COLUMNS];
#else
    _Alignas(64) int8_t b[MCT_BLOCK_DEPTH * MCT_TILE_COLUMNS];
#endif
#if !MCT_HAS_DOT4
    _Alignas(64) int16_t b_pairs[MCT_BLOCK_DEPTH * MCT_BLOCK_COLUMNS];
    _Alignas(64) int16_t a_pairs[MCT_BLOCK_ROWS * MCT_BLOCK_DEPTH + 4 * MCT_LANES];
#endif
#if MCT_MAY_HAVE_DOT
    int uses_dot;
    mct_dot dot;
#endif
} mct_block;

/* Where the factors of the tile of columns lie that begins with `column`; in one place, if none is
 * used again. */
static inline int32_t mct_tile_begin(const mct_block *block, int32_t column) {
    return block->keeps ? column * block->stride : 0;
}

/* Where they are filled in: pairs are made of them elsewhere. */
static inline int8_t *mct_tile_quads(mct_block *block, int32_t column) {
#if MCT_HAS_DOT4
    return block->b + mct_tile_begin(block, column);
#elif MCT_MAY_HAVE_DOT
    return block->b + (block->uses_dot ? mct_tile_begin(block, column) : 0);
#else
    (void)column;
    return block->b;
#endif
}

/* A word of a row in all lanes. */
static inline mct_v32 mct_word_of(const int8_t *from, int flips) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    const mct_v32 all = mct_v_all(word);
    return flips ? mct_v_held(all) ^ MCT_SIGNS : all;
}

/* A word of each row, the first four from `low` on, the others from `high` on: two addresses and a
 * distance stay in registers, where eight addresses do not. */
__attribute__((always_inline)) static inline void
mct_add_words(int rows, int vectors, int flips, const int8_t *low, const int8_t *high, int64_t row,
              const mct_element *b, mct_acc acc[MCT_TILE_ROWS][2]) {
    mct_v32 bs[2];
    MCT_UNROLLED
    for (int v = 0; v < vectors; v++) {
        bs[v] = mct_v_held(mct_v_load(b + v * (4 / MCT_WORDS * MCT_LANES)));
    }
    MCT_UNROLLED
    for (int r = 0; r < rows; r++) {
        const int8_t *from = (r < 4 ? low : high) + (r & 3) * row;
        const mct_v32 as = mct_word_of(from, flips);
        MCT_UNROLLED
        for (int v = 0; v < vectors; v++) {
            mct_acc_add(&acc[r][v], as, bs[v], flips);
        }
    }
}

/* sums (+)= a . b for `rows` rows from r0 on and `vectors` vectors of columns from c0 on. */
__attribute__((always_inline)) static inline void mct_multiply(int rows, int vectors, int flips,
                                                               const mct_block *block,
                                                               const mct_element *b, int32_t r0,
                                                               int32_t c0, int add, int32_t *sums) {
    const mct_rows a = block->a_rows;
    const int32_t stride = block->sum_stride, *excess = block->column_excess + c0;
    const int8_t *low = (const int8_t *)a.at + r0 * a.row, *high = low + 4 * a.row;
    mct_acc acc[MCT_TILE_ROWS][2];
    MCT_UNROLLED
    for (int r = 0; r < rows; r++) {
        acc[r][0] = acc[r][1] = (mct_acc){0};
    }
    for (int32_t d = 0; d < block->stride; d += 4) {
        mct_add_words(rows, vectors, flips, low, high, a.row, b, acc);
#if MCT_WORDS == 2
        b += 2 * MCT_TILE_COLUMNS;
        mct_add_words(rows, vectors, flips, low + a.word, high + a.word, a.row, b, acc);
#endif
        b += 4 / MCT_WORDS * MCT_TILE_COLUMNS;
        low += a.quad;
        high += a.quad;
    }
    MCT_UNROLLED
    for (int r = 0; r < rows; r++) {
        MCT_UNROLLED
        for (int v = 0; v < vectors; v++) {
            int32_t *to = sums + (r0 + r) * stride + v * MCT_LANES;
            mct_v32 sum = mct_acc_sum(acc[r][v]);
            if (MCT_HAS_DOT4) {
                sum -= mct_v_load(excess + v * MCT_LANES);
                sum -= flips ? 0 : block->row_excess[r0 + r];
            }
            mct_v_store(to, add ? mct_v_load(to) + sum : sum);
        }
    }
}

/* All rows of a tile of columns. */
__attribute__((always_inline)) static inline void
mct_multiply_rows(int vectors, int flips, const mct_block *block, const mct_element *b, int32_t c0,
                  int add, int32_t *sums) {
    int32_t r = 0;
    for (; r + MCT_TILE_ROWS <= block->rows; r += MCT_TILE_ROWS) {
        mct_multiply(MCT_TILE_ROWS, vectors, flips, block, b, r, c0, add, sums);
    }
    for (; r + 3 <= block->rows; r += 3) {
        mct_multiply(3, vectors, flips, block, b, r, c0, add, sums);
    }
    for (; r < block->rows; r++) {
        mct_multiply(1, vectors, flips, block, b, r, c0, add, sums);
    }
}

#if MCT_MAY_HAVE_DOT
static void mct_multiply_dot(mct_block *block, int32_t c0, int add, int32_t *sums) {
    mct_dot dot = block->dot;
    dot.b = block->b + mct_tile_begin(block, c0);
    dot.of_columns = block->column_excess + c0;
    mct_dot_multiply(&dot, block->rows, add, sums, block->sum_stride);
}
#endif

/* The tile of columns from c0 on; sums: of its first row and column. */
static void mct_multiply_tile(mct_block *block, int32_t c0, int add, int32_t *sums) {
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_multiply_dot(block, c0, add, sums);
        return;
    }
#endif
#if MCT_HAS_DOT4
    const mct_element *b = block->b + mct_tile_begin(block, c0);
#else
    const mct_element *b = block->b_pairs + mct_tile_begin(block, c0);
#endif
    const int one = block->columns - c0 <= MCT_LANES, flips = MCT_HAS_DOT4 && block->flips;
    if (one && flips) {
        mct_multiply_rows(1, 1, block, b, c0, add, sums);
    } else if (one) {
        mct_multiply_rows(1, 0, block, b, c0, add, sums);
    } else if (flips) {
        mct_multiply_rows(2, 1, block, b, c0, add, sums);
    } else {
        mct_multiply_rows(2, 0, block, b, c0, add, sums);
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
    const int by_rows = p->fill_a != NULL;
    block->a_rows =
        (mct_rows){block->a, by_rows ? block->stride : 4, by_rows ? 4 : 4 * MCT_BLOCK_ROWS, 0};
    if (block->flips) {
        return; /* what is of the row is nothing */
    }
    if (by_rows) {
        for (int32_t r = 0; r < block->rows; r++) {
            const int32_t sum = mct_sum_row(block->a + r * block->stride, block->stride);
            mct_set_row_excess(p, 128, block, r, sum);
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
            mct_set_row_excess(p, 128, block, r + l, sums[l]);
        }
    }
}

static void mct_take_b(const mct_product *p, int32_t c0, mct_block *block) {
    const mct_v32 ones = mct_v_all(0x01010101);
    const mct_v32 signs = mct_v_all(block->flips ? 0 : MCT_SIGNS);
    const int32_t factor = p->a_zero_point + (block->flips ? 128 : 0);
    for (int32_t v = 0; v < 2 && c0 + v * MCT_LANES < block->columns; v++) {
        int8_t *b = mct_tile_quads(block, c0) + 4 * v * MCT_LANES;
        mct_v32 sums = {0};
        for (int32_t d = 0; d < block->stride; d += 4) {
            const mct_v32 quads = mct_v_load(b);
            sums = mct_v_dot4(sums, ones, quads);
            if (!block->flips) {
                mct_v_store(b, quads ^ signs);
            }
            b += 4 * MCT_TILE_COLUMNS;
        }
        mct_v_store(block->column_excess + c0 + v * MCT_LANES, sums * factor);
    }
}
#else
/* The two pairs of each of a vector of quads, less the zero point. */
static inline void mct_widen_quad(const int8_t *quads, int16_t zero_point, int16_t *first,
                                  int16_t *second) {
    const mct_vu32 v = (mct_vu32)mct_v_load(quads);
    const mct_vu32 differs = (v ^ (v >> 8)) & 0xFF00; /* the second number and the third */
    const mct_twice_v16 turned = (mct_twice_v16)(v ^ differs ^ (differs << 8));
    const mct_twice_v16 evens = (mct_twice_v16)((mct_twice_vu16)turned << 8) >> 8;
    const mct_twice_v16 low = evens - zero_point, high = (turned >> 8) - zero_point;
    memcpy(first, &low, sizeof low);
    memcpy(second, &high, sizeof high);
}

/* `count` numbers that lie beside each other. Whole vectors are written. */
static void mct_widen_run(const int8_t *from, int32_t count, int32_t zero_point, int16_t *to) {
    int32_t i = 0;
    for (; i + 2 * MCT_LANES <= count; i += 2 * MCT_LANES) {
        mct_v_widen(to + i, from + i, zero_point);
    }
    if (i < count) {
        int8_t last[2 * MCT_LANES] = {0};
        memcpy(last, from + i, (size_t)(count - i));
        mct_v_widen(to + i, last, zero_point);
    }
}

static void mct_take_a(const mct_product *p, mct_block *block) {
    int16_t *pairs = block->a_pairs;
    if (p->fill_a == NULL) {
        block->a_rows = (mct_rows){pairs, 4, 8 * MCT_BLOCK_ROWS, 4 * MCT_BLOCK_ROWS};
        for (int32_t d = 0; d < block->stride; d += 4) {
            for (int32_t r = 0; r < block->rows; r += MCT_LANES) {
                int16_t *to = pairs + d * MCT_BLOCK_ROWS + 2 * r;
                mct_widen_quad(block->a + d * MCT_BLOCK_ROWS + 4 * r, (int16_t)p->a_zero_point, to,
                               to + 2 * MCT_BLOCK_ROWS);
            }
        }
        return;
    }
    block->a_rows = (mct_rows){pairs, 2 * block->stride, 8, 4};
    mct_widen_run(block->a, block->rows * block->stride, p->a_zero_point, pairs);
}

static void mct_take_b(const mct_product *p, int32_t c0, mct_block *block) {
    const int32_t vectors = block->columns - c0 <= MCT_LANES ? 1 : 2;
    for (int32_t d = 0; d < block->stride; d += 4) {
        for (int32_t v = 0; v < vectors; v++) {
            const int8_t *quads = mct_tile_quads(block, c0) + d * MCT_TILE_COLUMNS;
            int16_t *pairs = block->b_pairs + mct_tile_begin(block, c0) + d * MCT_TILE_COLUMNS +
                             2 * v * MCT_LANES;
            mct_widen_quad(quads + 4 * v * MCT_LANES, (int16_t)p->b_zero_point, pairs,
                           pairs + 2 * MCT_TILE_COLUMNS);
        }
    }
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

static void mct_dot_take_b(const mct_product *p, int32_t c0, mct_block *block) {
    int32_t *excess = block->column_excess + c0;
    const mct_dot dot = {.b = mct_tile_quads(block, c0), .depth = block->stride};
    mct_dot_sum_columns(&dot, excess);
    for (int32_t c = 0; c < MCT_TILE_COLUMNS; c++) {
        excess[c] *= p->a_zero_point;
    }
}
#endif

/* The rows, and where sdot multiplies eight of them, zero points for those that are missing. What comes
 * after the depth may be anything: b is its zero point there. */
static void mct_fill_rows(const mct_product *p, int32_t row, int32_t k, mct_block *block) {
    const int32_t stride = block->stride, depth = block->depth;
    if (p->a == NULL) {
        p->fill_a(p->job, row, block->rows, k, depth, stride, block->a);
    } else {
        for (int32_t r = 0; r < block->rows; r++) {
            memcpy(block->a + r * stride, p->a + (row + r) * p->a_step + k, (size_t)depth);
        }
    }
#if MCT_MAY_HAVE_DOT
    const int32_t missing = mct_round_up(block->rows, MCT_DOT_TILE) - block->rows;
    memset(block->a + block->rows * stride, p->a_zero_point, (size_t)(missing * stride));
#endif
}

/* Rows that lie in memory as the products need them are not copied. Returns whether they do. */
static int mct_take_rows(const mct_product *p, int32_t row, int32_t k, mct_block *block) {
    if (p->a == NULL || block->depth != block->stride) {
        return 0;
    }
    const int8_t *from = p->a + row * p->a_step + k;
#if MCT_HAS_DOT4
    if (block->flips) {
        block->a_rows = (mct_rows){from, p->a_step, 4, 0};
    }
    return block->flips;
#else
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        return 0;
    }
#endif
    const int whole = p->a_step == block->stride; /* rows, with nothing between them */
    const int32_t runs = whole ? 1 : block->rows;
    const int32_t count = whole ? block->rows * block->stride : block->stride;
    block->a_rows = (mct_rows){block->a_pairs, 2 * block->stride, 8, 4};
    for (int32_t r = 0; r < runs; r++) {
        mct_widen_run(from + r * p->a_step, count, p->a_zero_point, block->a_pairs + r * count);
    }
    return 1;
#endif
}

static void mct_fill_a(const mct_product *p, int32_t row, int32_t k, mct_block *block) {
    const int32_t stride = block->stride, depth = block->depth;
    if (mct_take_rows(p, row, k, block)) {
        return;
    }
    if (p->fill_a != NULL) {
        mct_fill_rows(p, row, k, block);
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

/* The tile of columns c0 … of a block that begins with `column`. */
static void mct_fill_tile(const mct_product *p, int32_t k, int32_t column, int32_t c0,
                          mct_block *block) {
    const int32_t columns = mct_smaller(block->columns - c0, MCT_TILE_COLUMNS);
    const int32_t whole = block->depth / 4 * 4; /* that fill_b fills */
    int8_t *b = mct_tile_quads(block, c0);
    if (whole < block->stride) {
        memset(b + whole * MCT_TILE_COLUMNS, p->b_zero_point,
               (size_t)((block->stride - whole) * MCT_TILE_COLUMNS));
    }
    p->fill_b(p->job, k, block->depth, column + c0, columns, b);
#if MCT_MAY_HAVE_DOT
    if (block->uses_dot) {
        mct_dot_take_b(p, c0, block);
        return;
    }
#endif
    mct_take_b(p, c0, block);
}

/* `rows` rows, at most MCT_DEEP_ROWS, of the block of columns that begins with `column`, and of the
 * depth from k on. fills: the columns are filled, each tile just before it is multiplied. */
static void mct_multiply_some(const mct_product *p, const mct_tile *some, int32_t k, int fills,
                              mct_block *block) {
    for (int32_t r = 0; r < some->rows; r += MCT_BLOCK_ROWS) {
        block->rows = mct_smaller(some->rows - r, MCT_BLOCK_ROWS);
        mct_fill_a(p, some->row + r, k, block);
        for (int32_t c0 = 0; c0 < block->columns; c0 += MCT_TILE_COLUMNS) {
            if (fills && r == 0) {
                mct_fill_tile(p, k, some->column, c0, block);
            }
            mct_multiply_tile(block, c0, k > 0, block->sums + r * block->sum_stride + c0);
        }
    }
}

/* The rows row … row_end - 1 of the columns column … column_end - 1. */
typedef struct {
    int32_t row, row_end, column, column_end;
} mct_range;

/* A block of columns. Its factors are filled once, unless the depth takes several blocks: then they
 * are for every MCT_DEEP_ROWS rows. The sums of whole lines are handed over. */
static void mct_product_columns(const mct_product *p, const mct_range *range, int32_t column,
                                mct_block *block) {
    const int32_t most = p->depth <= MCT_BLOCK_DEPTH ? MCT_BLOCK_ROWS : MCT_DEEP_ROWS;
    int32_t filled = -1; /* the k that block.b begins with */
    block->keeps = range->row_end - range->row > MCT_BLOCK_ROWS;
    for (int32_t row = range->row; row < range->row_end; row += most) {
        const int32_t rows = mct_smaller(range->row_end - row, most);
        const mct_tile tile = {row, rows, column, block->columns, block->sum_stride, block->sums};
        for (int32_t k = 0; k < p->depth; k += MCT_BLOCK_DEPTH) {
            block->depth = mct_smaller(p->depth - k, MCT_BLOCK_DEPTH);
            block->stride = mct_round_up(block->depth, MCT_WHOLE_DEPTH);
            mct_multiply_some(p, &tile, k, filled != k, block);
            filled = k;
        }
        p->take(p->result, &tile);
    }
}

static void mct_product_range(const mct_product *p, const mct_range *range) {
    mct_block block;
#if MCT_MAY_HAVE_DOT
    block.uses_dot = mct_has_dot();
#endif
    block.flips = p->b_zero_point == 0;
    for (int32_t c = range->column; c < range->column_end; c += MCT_BLOCK_COLUMNS) {
        block.columns = mct_smaller(range->column_end - c, MCT_BLOCK_COLUMNS);
        block.sum_stride = mct_round_up(block.columns, MCT_TILE_COLUMNS);
        mct_product_columns(p, range, c, &block);
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
