/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_resize_grad_input_<type>. */
#include "mct_types.h"

/* The outputs [begin, end) that lie less than a pixel from input i. */
typedef struct {
    int32_t begin, end;
} mct_resize_span;

/* From the span of input i - 1: positions ascend. */
static mct_resize_span mct_resize_next(mct_resize_span before, const int32_t *positions,
                                       int32_t count, int32_t i) {
    mct_resize_span span = before;
    while (span.begin < count && positions[span.begin] <= (i - 1) * 1024) {
        span.begin++;
    }
    while (span.end < count && positions[span.end] < (i + 1) * 1024) {
        span.end++;
    }
    return span;
}

/* What a position counts for input i, less than a pixel away, of 1024. */
static int32_t mct_resize_weight(int32_t position, int32_t i) {
    const int32_t distance = position - i * 1024;
    return 1024 - (distance < 0 ? -distance : distance);
}

void MCT_NAME(mct_resize_grad_input)(const MCT_PARAMS(mct_resize_grad_input) *p,
                                     const mct_step *step, const MCT_GRAD *dy,
                                     const mct_exponent *dy_exponent, const uint8_t *mask,
                                     mct_exponent *exponent, MCT_GRAD *dx, MCT_ACC *scratch) {
    const int32_t channels = p->dx.c;
    mct_resize_span rows = {0, 0};
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t iy = 0; iy < p->dx.h; iy++) {
        mct_resize_span columns = {0, 0};
        rows = mct_resize_next(rows, p->rows, p->dy.h, iy);
        for (int32_t ix = 0; ix < p->dx.w; ix++) {
            columns = mct_resize_next(columns, p->columns, p->dy.w, ix);
            for (int32_t c = 0; c < channels; c++) {
                scratch[c] = 0;
            }
            for (int32_t r = rows.begin; r < rows.end; r++) {
                const int32_t of_row = mct_resize_weight(p->rows[r], iy) / p->row_unit;
                for (int32_t s = columns.begin; s < columns.end; s++) {
                    const int32_t weight =
                        of_row * (mct_resize_weight(p->columns[s], ix) / p->column_unit);
                    const MCT_GRAD *from = dy + (r * p->dy.w + s) * channels;
                    for (int32_t c = 0; c < channels; c++) {
                        scratch[c] += (MCT_ACC)from[c] * weight;
                    }
                }
            }
            const int32_t first = (iy * p->dx.w + ix) * channels;
            MCT_NAME(mct_gradient_write)(&writer, scratch, first, channels, dx + first);
        }
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
