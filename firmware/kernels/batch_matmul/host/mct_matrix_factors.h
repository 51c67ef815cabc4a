/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: of each, the left factor has the rows of the result and the depth, the right
 * one the columns and the depth. Both may be stored in either order. */
#ifndef MCT_MATRIX_FACTORS_H
#define MCT_MATRIX_FACTORS_H

#include "mct_fixedpoint.h"
#include "mct_product.h"
#include "mct_threads.h"

/* A factor from its number (0, 0) on: how far the next row or column, the next number along the depth
 * and the next matrix are, and what to subtract from each number. */
typedef struct {
    const int8_t *at;
    int32_t step, depth, matrix;
    int32_t zero_point;
} mct_factor;

typedef struct {
    mct_factor left, right;
} mct_matrix_job;

static void mct_matrix_fill_a(const void *job, int32_t row, int32_t rows, int32_t k, int32_t depth,
                              int32_t stride, int8_t *a) {
    const mct_factor *f = &((const mct_matrix_job *)job)->left;
    const int8_t *at = f->at + row * f->step + k * f->depth;
    for (int32_t r = 0; r < rows; r++) {
        if (f->depth == 1) {
            memcpy(a + r * stride, at + r * f->step, (size_t)depth);
            continue;
        }
        for (int32_t d = 0; d < depth; d++) {
            a[r * stride + d] = at[r * f->step + d * f->depth];
        }
    }
}

/* The same where rows lie beside each other. */
static void mct_matrix_fill_a_quads(const void *job, int32_t k, int32_t depth, int32_t row,
                                    int32_t rows, int8_t *a) {
    const mct_factor *f = &((const mct_matrix_job *)job)->left;
    mct_fill_across(f->at + row + k * f->depth, f->depth, depth, rows, f->zero_point,
                    MCT_BLOCK_ROWS, a);
}

static void mct_matrix_fill_b(const void *job, int32_t k, int32_t depth, int32_t column,
                              int32_t columns, int8_t *b) {
    const mct_factor *f = &((const mct_matrix_job *)job)->right;
    const int8_t *at = f->at + column * f->step + k * f->depth;
    if (f->step == 1) {
        mct_fill_across(at, f->depth, depth, columns, f->zero_point, MCT_TILE_COLUMNS, b);
        return;
    }
    if (f->depth == 1) {
        mct_fill_along(at, f->step, depth, columns, b);
        return;
    }
    for (int32_t d = 0; d < depth; d++) {
        for (int32_t c = 0; c < columns; c++) {
            b[mct_quad_place(d, c)] = at[c * f->step + d * f->depth];
        }
    }
}

/* The result of a matrix: rows `first` … of all of them. */
typedef struct {
    mct_take *take;
    void *result;
    int32_t first;
} mct_matrix_rows;

static void mct_matrix_take(void *result, const mct_tile *tile) {
    const mct_matrix_rows *to = result;
    mct_tile moved = *tile;
    moved.row += to->first;
    to->take(to->result, &moved);
}

/* Products of matrices whose results are one matrix' rows after another's. */
typedef struct {
    mct_matrix_job factors; /* of the first */
    int32_t matrices, rows, columns, depth;
    mct_take *take; /* of sums[matrices][rows][columns] */
    void *result;
    int32_t writes_bits; /* 1: `take` sets bits of a mask */
    void (*run)(const mct_product *product);
} mct_matrices;

static inline void mct_matrices_part(const void *all, int32_t part, int32_t parts) {
    const mct_matrices *m = all;
    mct_matrix_job job = m->factors;
    mct_matrix_rows to = {m->take, m->result, 0};
    mct_product product = {
        .rows = m->rows,
        .columns = m->columns,
        .depth = m->depth,
        .job = &job,
        .a_zero_point = job.left.zero_point,
        .b_zero_point = job.right.zero_point,
        .fill_a = job.left.step == 1 ? NULL : mct_matrix_fill_a,
        .fill_a_quads = mct_matrix_fill_a_quads,
        .fill_b = mct_matrix_fill_b,
        .take = mct_matrix_take,
        .result = &to,
    };
    const int32_t end = mct_part_begin(m->matrices, part + 1, parts, 1);
    for (int32_t n = mct_part_begin(m->matrices, part, parts, 1); n < end; n++) {
        job.left.at = m->factors.left.at + n * job.left.matrix;
        job.right.at = m->factors.right.at + n * job.right.matrix;
        to.first = n * m->rows;
        product.first = n * m->rows * m->columns;
        m->run(&product);
    }
}

/* Matrices are shared by threads where each is too small to be, and their results no byte. */
static inline void mct_matrices_run(mct_matrices *m) {
    const int32_t numbers = m->rows * m->columns;
    const int64_t products = (int64_t)numbers * m->depth;
    const int may_be_shared = numbers % 8 == 0 || !m->writes_bits;
    int32_t parts = 1;
    if (may_be_shared && mct_threads_for(products) == 1) {
        parts = mct_min(mct_threads_for(products * m->matrices), m->matrices);
    }
    m->run = parts > 1 ? mct_product_run_alone : mct_product_run;
    mct_threads_run(mct_matrices_part, m, parts);
}

#endif
