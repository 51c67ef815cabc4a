/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_layer_norm_grad_input_<type>. */
#include "mct_layer_norm_row.h"

void MCT_NAME(mct_layer_norm_grad_input)(const MCT_PARAMS(mct_layer_norm_grad_input) *p,
                                         const mct_step *step, const MCT_GRAD *dy,
                                         const mct_exponent *dy_exponent, const int8_t *x,
                                         const int32_t *gamma, const uint8_t *mask,
                                         mct_exponent *exponent, MCT_GRAD *dx, MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const int32_t channels = p->channels;
    for (int32_t r = 0; r < p->rows; r++) {
        const int32_t first = r * channels;
        const mct_layer_norm_row row =
            mct_layer_norm_begin(x + first, p->channels, p->around_mean ? NULL : &p->origin,
                                 (uint64_t)p->epsilon << p->epsilon_shift, channels - 1);
        int64_t sum = 0;
        int64_t along = 0;
        for (int32_t c = 0; c < channels; c++) {
            const int32_t h = dy[first + c] * mct_back_gamma(gamma[c], p->gamma_shift);
            const int32_t n =
                mct_normalized(&row, x[first + c]) >> (MCT_NORMALIZED_BITS - MCT_MEAN_BITS);
            sum += h;
            along += (int64_t)h * n;
            scratch[c] = n;
        }
        sum = p->around_mean ? sum : 0;
        const int32_t mean_along = (int32_t)(along >> (MCT_MEAN_BITS + p->channel_bits));
        const int32_t root = row.root >> (29 - MCT_BACK_ROOT_BITS);
        for (int32_t c = 0; c < channels; c++) {
            const int32_t h = dy[first + c] * mct_back_gamma(gamma[c], p->gamma_shift);
            const int64_t centred = ((int64_t)channels * h - sum) >> p->channel_bits;
            const int64_t rest = centred - (((int64_t)scratch[c] * mean_along) >> MCT_MEAN_BITS);
            scratch[c] = (MCT_ACC)((rest * root) >> (p->shift + row.half));
        }
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, channels, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
