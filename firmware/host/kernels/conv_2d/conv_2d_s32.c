#include "conv_2d.h"
#include "mct_conv_rows.h"

typedef struct {
    const int32_t *b;
    int32_t channels;
    int32_t *y;
} mct_conv_result;

static void mct_conv_take(void *result_, int32_t row, int32_t rows, int32_t column, int32_t columns,
                          const int32_t *sums) {
    const mct_conv_result *result = result_;
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t c = 0; c < columns; c++) {
            const int32_t sum = sums[r * MCT_TILE_COLUMNS + c];
            result->y[(row + r) * result->channels + column + c] = result->b[column + c] + sum;
        }
    }
}

void mct_conv_2d_s32(const mct_conv_2d_s32_params *p, const int8_t *x, const int8_t *w,
                     const int32_t *b, int32_t *y) {
    const mct_conv_job job = {&p->x, &p->y, &p->window, p->x_zero_point, x, w};
    mct_conv_result result = {b, p->y.c, y};
    mct_product product = mct_conv_product(&job);
    product.take = mct_conv_take;
    product.result = &result;
    mct_product_run(&product);
}
