#include "conv_2d.h"
#include "mct_conv_weight_rows.h"

typedef struct {
    const mct_conv_2d_grad_weight_s8_params *p;
    const mct_step *step;
    int32_t tap;
    int32_t *dw;
} mct_weight_result;

static void mct_weight_take(void *result_, int32_t row, int32_t rows, int32_t column,
                            int32_t columns, const int32_t *sums) {
    const mct_weight_result *result = result_;
    const mct_conv_2d_grad_weight_s8_params *p = result->p;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t r = 0; r < rows; r++) {
        const int32_t first = ((row + r) * taps + result->tap) * p->x.c + column;
        mct_accumulate_s32(result->step, sums + r * MCT_TILE_COLUMNS, columns, result->dw + first);
    }
}

void mct_conv_2d_grad_weight_s8(const mct_conv_2d_grad_weight_s8_params *p, const mct_step *step,
                                const int8_t *dy, const int8_t *x, int32_t *dw, int32_t *scratch) {
    (void)scratch;
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const mct_weight_job job = {&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, tap};
        mct_weight_result result = {p, step, tap, dw};
        mct_product product = mct_weight_product(&job);
        product.take = mct_weight_take;
        product.result = &result;
        mct_product_run(&product);
    }
}
