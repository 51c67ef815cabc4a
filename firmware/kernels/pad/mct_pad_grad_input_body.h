/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_pad_grad_input_<type>. */

void MCT_NAME(mct_pad_grad_input)(const MCT_PARAMS(mct_pad_grad_input) *p, const mct_step *step,
                                  const MCT_GRAD *dy, const mct_exponent *dy_exponent,
                                  const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                  MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t position = 0; position < p->dx.h * p->dx.w; position++) {
        const int32_t row = position / p->dx.w + p->pad_top;
        const int32_t column = position % p->dx.w + p->pad_left;
        const MCT_GRAD *from = dy + (row * p->dy.w + column) * p->dy.c + p->pad_channels;
        for (int32_t c = 0; c < p->dx.c; c++) {
            scratch[c] = from[c];
        }
        const int32_t first = position * p->dx.c;
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->dx.c, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
