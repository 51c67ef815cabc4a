/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_simd.h"
#include "mct_threads.h"
#include "mct_transpose.h"

typedef struct {
    const mct_transpose_s8_params *p;
    const int8_t *x;
    int8_t *y;
} mct_transpose_job;

/* LANES rows of y, four elements of each, from lines of x that lie `step` apart. */
static void mct_turn_four(const int8_t *x, int32_t step, int32_t row, int8_t *y) {
    mct_v32 lines[4];
    int32_t words[MCT_LANES];
    for (int32_t i = 0; i < 4; i++) {
        lines[i] = mct_v_load_s8(x + i * step, MCT_LANES);
    }
    mct_v_store(words, mct_v_quad(lines[0], lines[1], lines[2], lines[3]));
    for (int32_t r = 0; r < MCT_LANES; r++) {
        memcpy(y + r * row, &words[r], sizeof words[r]);
    }
}

/* One matrix: rows k and columns l of y. */
static void mct_transpose_matrix(const mct_transpose_s8_params *p, const int8_t *x, int8_t *y) {
    const int32_t rows = p->length_2, columns = p->length_3, step = p->stride_3;
    const int may_turn = p->stride_2 == 1;
    const int32_t whole_rows = may_turn ? rows / MCT_LANES * MCT_LANES : 0;
    const int32_t whole_columns = columns / 4 * 4;
    for (int32_t k = 0; k < whole_rows; k += MCT_LANES) {
        for (int32_t l = 0; l < whole_columns; l += 4) {
            mct_turn_four(x + k + l * step, step, columns, y + k * columns + l);
        }
    }
    for (int32_t k = 0; k < rows; k++) {
        const int8_t *from = x + k * p->stride_2;
        int8_t *to = y + k * columns;
        if (step == 1) {
            memcpy(to, from, (size_t)columns);
            continue;
        }
        for (int32_t l = k < whole_rows ? whole_columns : 0; l < columns; l++) {
            to[l] = from[l * step];
        }
    }
}

static void mct_transpose_part(const void *job_, int32_t part, int32_t parts) {
    const mct_transpose_job *job = job_;
    const mct_transpose_s8_params *p = job->p;
    const int32_t matrices = p->length_0 * p->length_1;
    const int32_t end = mct_part_begin(matrices, part + 1, parts, 1);
    for (int32_t n = mct_part_begin(matrices, part, parts, 1); n < end; n++) {
        const int32_t i = n / p->length_1, j = n % p->length_1;
        mct_transpose_matrix(p, job->x + i * p->stride_0 + j * p->stride_1,
                             job->y + n * p->length_2 * p->length_3);
    }
}

void mct_transpose_s8(const mct_transpose_s8_params *p, const int8_t *x, int8_t *y) {
    const mct_transpose_job job = {p, x, y};
    const int32_t matrices = p->length_0 * p->length_1;
    const int64_t elements = (int64_t)matrices * p->length_2 * p->length_3;
    const int32_t parts = mct_threads_for(elements * MCT_PRODUCTS_OF_AN_ELEMENT);
    mct_threads_run(mct_transpose_part, &job, parts < matrices ? parts : matrices);
}
