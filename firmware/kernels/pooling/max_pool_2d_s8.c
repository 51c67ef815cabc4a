#include "mct_fixedpoint.h"
#include "mct_window.h"
#include "pooling.h"

void mct_max_pool_2d_s8(const mct_max_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                        uint8_t *mask) {
    int32_t i = 0;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t position = 0; position < p->y.h * p->y.w; position++) {
        for (int32_t c = 0; c < p->y.c; c++) {
            int32_t largest = -129;
            for (int32_t tap = 0; tap < taps; tap++) {
                const int32_t at =
                    mct_window_tap_2d(&p->window, &p->x, position / p->y.w, position % p->y.w, tap);
                if (at >= 0) {
                    largest = mct_max(largest, x[at * p->x.c + c]);
                }
            }
            mct_clamp_store(largest, p->low, p->high, i++, y, mask);
        }
    }
}
