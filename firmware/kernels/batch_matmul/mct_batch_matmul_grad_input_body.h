/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_batch_matmul_grad_input_<type>. */

void MCT_NAME(mct_batch_matmul_grad_input)(const MCT_PARAMS(mct_batch_matmul_grad_input) *p,
                                           const mct_step *step, const MCT_GRAD *dy,
                                           const mct_exponent *dy_exponent, const int8_t *other,
                                           const uint8_t *mask, mct_exponent *exponent,
                                           MCT_GRAD *dx, MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const int32_t zero_point = p->zero_point;
    int32_t first = 0;
    for (int32_t matrix = 0; matrix < p->matrices; matrix++) {
        for (int32_t i = 0; i < p->rows; i++) {
            for (int32_t j = 0; j < p->columns; j++) {
                const MCT_GRAD *left = dy + i * p->dy_row + j * p->dy_column;
                const int8_t *right = other + i * p->other_row + j * p->other_column;
                MCT_ACC sum = 0;
                for (int32_t k = 0; k < p->depth; k++) {
                    sum +=
                        (MCT_ACC)left[k * p->dy_depth] * (right[k * p->other_depth] - zero_point);
                }
                scratch[j] = sum;
            }
            MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->columns, dx + first);
            first += p->columns;
        }
        dy += p->dy_matrix;
        other += p->other_matrix;
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
