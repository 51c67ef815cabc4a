/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_mul.h"

/* The sums over all positions of a vector of channels. */
static inline mct_v32 mct_mul_channel_sums(const mct_mul_grad_channels_s8_params *p,
                                           const int8_t *dy, const int8_t *other, int32_t lanes) {
    mct_v32 sums = {0};
    for (int32_t position = 0; position < p->positions; position++) {
        const int32_t i = position * p->channels;
        sums += mct_v_load_s8(dy + i, lanes) * (mct_v_load_s8(other + i, lanes) - p->zero_point);
    }
    return sums;
}

void mct_mul_grad_channels_s8(const mct_mul_grad_channels_s8_params *p, const mct_step *step,
                              const int8_t *dy, const mct_exponent *dy_exponent,
                              const int8_t *other, const uint8_t *mask, mct_exponent *exponent,
                              int8_t *dx, int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    mct_gradients result = {&writer, p->channels, dx};
    for (int32_t c = 0; c < p->channels; c += MCT_LANES) {
        int32_t sums[MCT_LANES];
        const int32_t lanes = mct_min(p->channels - c, MCT_LANES);
        const mct_tile tile = {0, 1, c, lanes, MCT_LANES, sums};
        mct_v_store(sums, mct_mul_channel_sums(p, dy + c, other + c, lanes));
        mct_take_gradients(&result, &tile);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
