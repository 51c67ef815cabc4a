/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_mul_grad_channels_<type>. */

void MCT_NAME(mct_mul_grad_channels)(const MCT_PARAMS(mct_mul_grad_channels) *p,
                                     const mct_step *step, const MCT_GRAD *dy,
                                     const mct_exponent *dy_exponent, const int8_t *other,
                                     const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                     MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t c = 0; c < p->channels; c++) {
        scratch[c] = 0;
    }
    for (int32_t position = 0; position < p->positions; position++) {
        const int32_t first = position * p->channels;
        for (int32_t c = 0; c < p->channels; c++) {
            scratch[c] += (MCT_ACC)dy[first + c] * (other[first + c] - p->zero_point);
        }
    }
    MCT_NAME(mct_gradient_write)(&writer, scratch, 0, p->channels, dx);
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
