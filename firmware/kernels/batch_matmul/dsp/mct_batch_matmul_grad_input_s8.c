/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_batch_matmul.h"

#include "mct_dsp_product.h"
#include "mct_fixedpoint.h"

/* An operand has the rows of dx and the depth, the other one the columns of dx and the depth. */
void mct_batch_matmul_grad_input_s8(const mct_batch_matmul_grad_input_s8_params *p,
                                    const mct_step *step, const int8_t *dy,
                                    const mct_exponent *dy_exponent, const int8_t *other,
                                    const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                    int32_t *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    const int dy_has_rows = p->dy_row != 0;
    const int32_t row_step = dy_has_rows ? p->dy_row : p->other_row;
    int32_t first = 0;
    for (int32_t matrix = 0; matrix < p->matrices; matrix++) {
        const mct_factor of_dy = {dy, p->dy_column, p->dy_depth, 0};
        const mct_factor of_other = {other, p->other_column, p->other_depth, p->zero_point};
        const int8_t *rows = dy_has_rows ? dy : other;
        mct_factor row = dy_has_rows ? of_dy : of_other;
        for (int32_t i = 0; i < p->rows; i++) {
            row.at = rows + i * row_step;
            const int8_t *start = dy_has_rows ? other : dy;
            mct_factor columns = dy_has_rows ? of_other : of_dy;
            for (int32_t j = 0; j < p->columns; j += 4) {
                const int32_t count = mct_min(p->columns - j, 4);
                columns.at = start + j * columns.column;
                mct_products(&row, &columns, p->depth, count, scratch + j);
            }
            mct_gradient_write_s8(&writer, scratch, first, p->columns, dx + first);
            first += p->columns;
        }
        dy += p->dy_matrix;
        other += p->other_matrix;
    }
    mct_gradient_end(&writer, 7);
}
