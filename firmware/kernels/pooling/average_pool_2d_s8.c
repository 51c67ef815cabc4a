#include "mct_fixedpoint.h"
#include "mct_window.h"
#include "pooling.h"

void mct_average_pool_2d_s8(const mct_average_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                            uint8_t *mask) {
    int32_t i = 0;
    const int32_t taps = p->window.kernel_h * p->window.kernel_w;
    for (int32_t position = 0; position < p->y.h * p->y.w; position++) {
        for (int32_t c = 0; c < p->y.c; c++) {
            int32_t sum = 0;
            int32_t count = 0;
            for (int32_t tap = 0; tap < taps; tap++) {
                const int32_t at =
                    mct_window_tap_2d(&p->window, &p->x, position / p->y.w, position % p->y.w, tap);
                if (at >= 0) {
                    sum += x[at * p->x.c + c];
                    count++;
                }
            }
            const int32_t half = sum > 0 ? count / 2 : -(count / 2);
            mct_clamp_store((sum + half) / count, p->low, p->high, i++, y, mask);
        }
    }
}
