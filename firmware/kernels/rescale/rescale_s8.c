#include "rescale.h"

#include "mct_fixedpoint.h"

void mct_rescale_s8(const mct_rescale_s8_params *p, const int8_t *x, int8_t *y) {
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t scaled = mct_requantize_q31(x[i] - p->x_zero_point, p->mult_q31, p->shift);
        y[i] = (int8_t)mct_clamp(scaled + p->y_zero_point, p->low, p->high);
    }
}
