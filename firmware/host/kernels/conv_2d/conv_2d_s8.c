#include "conv_2d.h"
#include "mct_conv_rows.h"
#include "mct_rows.h"

typedef struct {
    const mct_requantize *requantize;
    const int32_t *b;
    int32_t channels;
    int8_t *y;
    uint8_t *mask;
} mct_conv_result;

static void mct_conv_take(void *result_, int32_t row, int32_t rows, int32_t column, int32_t columns,
                          const int32_t *sums) {
    const mct_conv_result *result = result_;
    const mct_rows at = {
        .rows = rows,
        .channels = columns,
        .channel = column,
        .first = row * result->channels + column,
        .sums_stride = MCT_TILE_COLUMNS,
        .y_stride = result->channels,
    };
    if (result->requantize->rounds_once) {
        mct_requantize_rows_once(result->requantize, &at, sums, result->b, result->y, result->mask);
    } else {
        mct_requantize_rows(result->requantize, &at, sums, result->b, result->y, result->mask);
    }
}

void mct_conv_2d_s8(const mct_conv_2d_s8_params *p, const int8_t *x, const int8_t *w,
                    const int32_t *b, int8_t *y, uint8_t *mask) {
    const mct_conv_job job = {&p->x, &p->y, &p->window, p->x_zero_point, x, w};
    mct_conv_result result = {&p->requantize, b, p->y.c, y, mask};
    mct_product product = mct_conv_product(&job);
    product.take = mct_conv_take;
    product.result = &result;
    mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
    mct_product_run(&product);
}
