/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_batch_matmul.h"
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_matrix_factors.h"

void mct_batch_matmul_grad_input_s8(const mct_batch_matmul_grad_input_s8_params *p,
                                    const mct_step *step, const int8_t *dy,
                                    const mct_exponent *dy_exponent, const int8_t *other,
                                    const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                                    int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const int dy_has_rows = p->dy_row != 0;
    const int32_t dy_step = dy_has_rows ? p->dy_row : p->dy_column;
    const int32_t other_step = dy_has_rows ? p->other_column : p->other_row;
    const mct_factor of_dy = {dy, dy_step, p->dy_depth, p->dy_matrix, 0};
    const mct_factor of_other = {other, other_step, p->other_depth, p->other_matrix, p->zero_point};
    mct_gradients result = {&writer, p->columns, dx};
    mct_matrices matrices = {
        .factors = {dy_has_rows ? of_dy : of_other, dy_has_rows ? of_other : of_dy},
        .matrices = p->matrices,
        .rows = p->rows,
        .columns = p->columns,
        .depth = p->depth,
        .take = mct_take_gradients,
        .result = &result,
    };
    mct_matrices_run(&matrices);
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
