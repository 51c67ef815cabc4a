#include "mct_conv_2d.h"
#include "mct_helium_weight.h"

typedef struct {
    const mct_updater *updater;
    int8_t *w;
    uint8_t *residual;
} mct_updated;

static void mct_take_updated(void *result, int32_t o, int32_t first, int32_t columns,
                             const int32_t *sums) {
    const mct_updated *to = result;
    mct_update_row_s8(to->updater, sums, first, columns, o, to->w + first, to->residual);
}

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x, int8_t *w,
                                  uint8_t *residual, int32_t *scratch) {
    (void)scratch;
    const mct_updater updater = mct_update_begin(&p->rule, step, dy_exponent, 0);
    mct_updated result = {&updater, w, residual};
    mct_weight_run(&p->x, &p->dy, &p->window, p->x_zero_point, dy, x, mct_take_updated, &result);
}
