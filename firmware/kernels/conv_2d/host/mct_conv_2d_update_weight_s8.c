/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_conv_2d.h"
#include "mct_conv_weight_factors.h"
#include "mct_grad_s8.h"
#include "mct_update_row.h"

typedef struct {
    const mct_conv_2d_update_weight_s8_params *p;
    const mct_updater *updater;
    int32_t tap;
    int32_t most; /* of a sum's magnitude */
} mct_updated;

/* A product of a gradient and of an input without its zero point is 128 * 255 at most. */
static int32_t mct_most_sum(const mct_shape *dy) {
    const int64_t most = (int64_t)dy->h * dy->w * (128 * 255);
    return most < INT32_MAX ? (int32_t)most : INT32_MAX;
}

static void mct_take_updated(void *result, const mct_tile *tile) {
    const mct_updated *to = result;
    const mct_conv_2d_update_weight_s8_params *p = to->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t r = 0; r < tile->rows; r++) {
        const int32_t o = tile->row + r;
        const int32_t first = (o * taps + to->tap) * p->x.c + tile->column;
        mct_update_row_vector(to->updater, o, tile->sums + r * tile->stride, first, tile->columns,
                              to->most);
    }
}

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  int32_t *scratch) {
    (void)scratch;
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const mct_weight_job job = {&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, tap};
        mct_updated result = {p, &updater, tap, mct_most_sum(&p->dy)};
        mct_weight_run(&job, mct_take_updated, &result);
    }
}
