/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_lookup_grad_input_<type>. */

void MCT_NAME(mct_lookup_grad_input)(const MCT_PARAMS(mct_lookup_grad_input) *p,
                                     const mct_step *step, const MCT_GRAD *dy,
                                     const mct_exponent *dy_exponent, const int8_t *x,
                                     const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                     MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t position = 0; position < p->positions; position++) {
        const int32_t first = position * p->channels;
        for (int32_t c = 0; c < p->channels; c++) {
            scratch[c] = (MCT_ACC)dy[first + c] * p->slopes[x[first + c] + 128];
        }
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->channels, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
