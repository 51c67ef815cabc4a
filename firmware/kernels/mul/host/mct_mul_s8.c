/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_mul.h"
#include "mct_requantize_tile.h"

void mct_mul_s8(const mct_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    const mct_v_scale scale = mct_v_scale_of(mct_v_all(p->mult_q31), mct_v_all(p->shift));
    const int32_t elements = p->positions * p->channels;
    const int32_t row = p->b_per_channel ? p->channels : elements; /* that b has */
    mct_mask_clear(mask, elements);
    for (int32_t first = 0; first < elements; first += row) {
        for (int32_t c = 0; c < row; c += MCT_LANES) {
            const int32_t lanes = mct_min(row - c, MCT_LANES);
            const mct_v32 as = mct_v_load_s8(a + first + c, lanes) - p->a_zero_point;
            const mct_v32 bs = mct_v_load_s8(b + c, lanes) - p->b_zero_point;
            const mct_v32 scaled = mct_v_requantize(&scale, as * bs) + p->y_zero_point;
            mct_v_clamp_store(scaled, p->low, p->high, first + c, lanes, y, mask);
        }
    }
}
