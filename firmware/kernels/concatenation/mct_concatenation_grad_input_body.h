/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_concatenation_grad_input_<type>. */

void MCT_NAME(mct_concatenation_grad_input)(const MCT_PARAMS(mct_concatenation_grad_input) *p,
                                            const mct_step *step, const MCT_GRAD *dy,
                                            const mct_exponent *dy_exponent, const uint8_t *mask,
                                            mct_exponent *exponent, MCT_GRAD *dx,
                                            MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t i = 0; i < p->outer; i++) {
        const MCT_GRAD *part = dy + i * p->dy_elements + p->first;
        for (int32_t j = 0; j < p->dx_elements; j += p->channels) {
            const int32_t first = i * p->dx_elements + j;
            for (int32_t c = 0; c < p->channels; c++) {
                scratch[c] = part[j + c];
            }
            MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->channels, dx + first);
        }
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
