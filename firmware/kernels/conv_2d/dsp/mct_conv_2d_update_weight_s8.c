#include "mct_conv_2d.h"
#include "mct_dsp_weight.h"

static void mct_take_updated(void *updater, int32_t o, int32_t first, int32_t columns,
                             const mct_sums4 *sums) {
    mct_update_row_s8(updater, o, sums->lane, first, columns);
}

void mct_conv_2d_update_weight_s8(const mct_conv_2d_update_weight_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  int32_t *scratch) {
    (void)scratch;
    mct_updater updater = mct_update_begin(&p->parameter, step, dy_exponent, 0);
    mct_weight_run(&p->x, &p->dy, &p->window, 1, p->x_zero_point, dy, x, mct_take_updated,
                   &updater);
}
