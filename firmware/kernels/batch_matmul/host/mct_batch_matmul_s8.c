/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_batch_matmul.h"
#include "mct_matrix_factors.h"
#include "mct_requantize_tile.h"

void mct_batch_matmul_s8(const mct_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b,
                         int8_t *y, uint8_t *mask) {
    const int8_t shift = (int8_t)p->shift;
    const mct_requantize requantize = {
        .mult_q31 = &p->mult_q31,
        .shift = &shift,
        .zero_point = p->y_zero_point,
        .low = p->low,
        .high = p->high,
    };
    const int32_t most = mct_most_of(p->depth, 255 * 255);
    mct_requantized result = {&requantize, NULL, p->columns, y, mask, most};
    mct_mask_clear(mask, p->matrices * p->rows * p->columns);
    mct_matrices matrices = {
        .factors = {{a, p->a_row, p->a_depth, p->rows * p->depth, p->a_zero_point},
                    {b, p->b_column, p->b_depth, p->depth * p->columns, p->b_zero_point}},
        .matrices = p->matrices,
        .rows = p->rows,
        .columns = p->columns,
        .depth = p->depth,
        .take = mct_take_requantized,
        .result = &result,
        .writes_bits = mask != NULL,
    };
    mct_matrices_run(&matrices);
}
