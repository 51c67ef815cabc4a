#include "conv_2d.h"
#include "mct_conv_weight_rows.h"
#include "mct_update_rows.h"

typedef struct {
    const mct_conv_2d_update_weight_s8_params *p;
    const mct_updater *updater;
    int32_t tap;
    int8_t *w;
    uint8_t *residual;
} mct_weight_result;

static void mct_weight_take(void *result_, int32_t row, int32_t rows, int32_t column,
                            int32_t columns, const int32_t *sums) {
    const mct_weight_result *result = result_;
    const mct_conv_2d_update_weight_s8_params *p = result->p;
    for (int32_t r = 0; r < rows; r++) {
        const int32_t o = row + r;
        const int32_t w_row = o * p->window.kernel_h * p->window.kernel_w + result->tap;
        const int32_t first = w_row * p->x.c + column;
        mct_update_lanes(result->updater, sums + r * MCT_TILE_COLUMNS, first, columns, o,
                         result->w + first, result->residual);
    }
}

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x, int8_t *w,
                                  uint8_t *residual, int32_t *scratch) {
    (void)scratch;
    const mct_updater updater = mct_update_begin(&p->rule, step, dy_exponent, MCT_DROPPED_BITS_S8);
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const mct_weight_job job = {&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, tap};
        mct_weight_result result = {p, &updater, tap, w, residual};
        mct_product product = mct_weight_product(&job);
        product.take = mct_weight_take;
        product.result = &result;
        mct_product_run(&product);
    }
}
