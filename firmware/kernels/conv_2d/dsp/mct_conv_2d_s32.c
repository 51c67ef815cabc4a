/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_dsp_columns.h"
#include "mct_dsp_rows.h"

/* All channels at one position. */
static void mct_conv_logits(const mct_columns *columns, int32_t position, mct_dsp_rows *rows,
                            int32_t *y) {
    const int8_t *w = rows->w;
    uint32_t terms[MCT_COLUMN_TERMS / 2];
    mct_dsp_rows part = *rows;
    part.terms = terms;
    for (int32_t k = 0; k < rows->row; k += MCT_COLUMN_TERMS) {
        part.w = w + k;
        part.depth = mct_min(rows->row - k, MCT_COLUMN_TERMS);
        mct_column_load(columns, position, k, part.depth, 0, terms);
        mct_dsp_rows_add(&part, y);
    }
}

void mct_conv_2d_s32(const mct_conv_2d_s32_params *p, const int8_t *x, const int8_t *w,
                     const int32_t *b, int32_t *y) {
    const int32_t positions = p->y.h * p->y.w, outs = p->y.c;
    const mct_columns columns =
        mct_columns_of(&p->x, &p->y, &p->window, p->x_zero_point, x, p->x.c);
    mct_dsp_rows rows = {.w = w, .count = outs};
    rows.row = p->window.kernel_h * p->window.kernel_w * p->x.c;
    rows.end = w + outs * rows.row;
    for (int32_t position = 0; position < positions; position++, y += outs) {
        for (int32_t o = 0; o < outs; o++) {
            y[o] = b[o];
            mct_keep_loop();
        }
        mct_conv_logits(&columns, position, &rows, y);
    }
}
