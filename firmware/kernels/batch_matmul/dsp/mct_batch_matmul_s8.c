/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_batch_matmul.h"

#include "mct_dsp_product.h"
#include "mct_fixedpoint.h"

void mct_batch_matmul_s8(const mct_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b,
                         int8_t *y, uint8_t *mask) {
    int32_t at = 0;
    for (int32_t matrix = 0; matrix < p->matrices; matrix++) {
        for (int32_t i = 0; i < p->rows; i++) {
            const mct_factor row = {a + i * p->a_row, 0, p->a_depth, p->a_zero_point};
            mct_factor columns = {b, p->b_column, p->b_depth, p->b_zero_point};
            for (int32_t j = 0; j < p->columns; j += 4) {
                const int32_t count = mct_min(p->columns - j, 4);
                int32_t sums[4];
                columns.at = b + j * p->b_column;
                mct_products(&row, &columns, p->depth, count, sums);
                for (int32_t lane = 0; lane < count; lane++) {
                    const int32_t scaled = mct_requantize_q31(sums[lane], p->mult_q31, p->shift);
                    mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, at++, y, mask);
                }
            }
        }
        a += p->rows * p->depth;
        b += p->depth * p->columns;
    }
}
