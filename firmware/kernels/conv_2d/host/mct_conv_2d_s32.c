/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_factors.h"

typedef struct {
    const int32_t *b;
    int32_t channels;
    int32_t *y;
} mct_sums;

static void mct_take_sums(void *result, const mct_tile *tile) {
    const mct_sums *to = result;
    for (int32_t r = 0; r < tile->rows; r++) {
        int32_t *y = to->y + (tile->row + r) * to->channels + tile->column;
        for (int32_t c = 0; c < tile->columns; c++) {
            y[c] = to->b[tile->column + c] + tile->sums[r * tile->stride + c];
        }
    }
}

void mct_conv_2d_s32(const mct_conv_2d_s32_params *p, const int8_t *x, const int8_t *w,
                     const int32_t *b, int32_t *y) {
    const mct_conv_job job = {&p->x, &p->y, &p->window, p->x_zero_point, x, w, NULL, NULL};
    mct_sums result = {b, p->y.c, y};
    mct_conv_run(&job, mct_take_sums, &result);
}
