#include "depthwise_conv_2d.h"
#include "mct_depthwise.h"
#include "mct_rows.h"
#include "mct_window.h"

typedef struct {
    const mct_depthwise_conv_2d_s8_params *p;
    const int32_t *b;
    int8_t *y;
    uint8_t *mask;
} mct_depthwise_result;

static void mct_depthwise_take(void *result_, int32_t row, int32_t column, int32_t columns,
                               int32_t c, int32_t lanes, const int32_t *sums) {
    const mct_depthwise_result *result = result_;
    const mct_shape *shape = &result->p->y;
    const mct_rows at = {
        .rows = columns,
        .channels = lanes,
        .channel = c,
        .first = (row * shape->w + column) * shape->c + c,
        .sums_stride = MCT_LANES,
        .y_stride = shape->c,
    };
    mct_requantize_rows(&result->p->requantize, &at, sums, result->b, result->y, result->mask);
}

/* Any window and channel multiplier. */
static int32_t mct_depthwise_sum(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                                 const int8_t *w, int32_t row, int32_t column, int32_t c) {
    const int32_t i = c / (p->y.c / p->x.c);
    int32_t sum = 0;
    for (int32_t tap = 0; tap < p->window.kernel_h * p->window.kernel_w; tap++) {
        const int32_t at = mct_window_tap_2d(&p->window, &p->x, row, column, tap);
        if (at >= 0) {
            sum += (x[at * p->x.c + i] - p->x_zero_point) * w[tap * p->y.c + c];
        }
    }
    return sum;
}

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask) {
    mct_depthwise_result result = {p, b, y, mask};
    const mct_depthwise depthwise = {
        .from = p->x,
        .rows = p->y.h,
        .columns = p->y.w,
        .window = p->window,
        .upsample_h = 1,
        .upsample_w = 1,
        .zero_point = p->x_zero_point,
        .x = x,
        .w = w,
        .take = mct_depthwise_take,
        .result = &result,
    };
    if (p->x.c == p->y.c && !p->requantize.rounds_once && mct_depthwise_fits(&depthwise)) {
        mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
        mct_depthwise_run(&depthwise);
        return;
    }
    int32_t i = 0;
    for (int32_t position = 0; position < p->y.h * p->y.w; position++) {
        for (int32_t c = 0; c < p->y.c; c++) {
            const int32_t sum = mct_depthwise_sum(p, x, w, position / p->y.w, position % p->y.w, c);
            mct_requantize_store(&p->requantize, b[c] + sum, c, i++, y, mask);
        }
    }
}
