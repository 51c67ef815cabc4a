/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_batch_matmul.h"

#include "mct_fixedpoint.h"

void mct_batch_matmul_s8(const mct_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b,
                         int8_t *y, uint8_t *mask) {
    const int32_t a_zero_point = p->a_zero_point, b_zero_point = p->b_zero_point;
    int32_t at = 0;
    for (int32_t matrix = 0; matrix < p->matrices; matrix++) {
        for (int32_t i = 0; i < p->rows; i++) {
            for (int32_t j = 0; j < p->columns; j++) {
                const int8_t *left = a + i * p->a_row, *right = b + j * p->b_column;
                int32_t sum = 0;
                for (int32_t k = 0; k < p->depth; k++) {
                    sum += (left[k * p->a_depth] - a_zero_point) *
                           (right[k * p->b_depth] - b_zero_point);
                }
                const int32_t scaled = mct_requantize_q31(sum, p->mult_q31, p->shift);
                mct_clamp_store(scaled + p->y_zero_point, p->low, p->high, at++, y, mask);
            }
        }
        a += p->rows * p->depth;
        b += p->depth * p->columns;
    }
}
