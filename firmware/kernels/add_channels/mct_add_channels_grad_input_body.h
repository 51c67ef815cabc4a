/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_add_channels_grad_input_<type>. */

void MCT_NAME(mct_add_channels_grad_input)(const MCT_PARAMS(mct_add_channels_grad_input) *p,
                                           const mct_step *step, const MCT_GRAD *dy,
                                           const mct_exponent *dy_exponent, const uint8_t *mask,
                                           mct_exponent *exponent, MCT_GRAD *db, MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t c = 0; c < p->channels; c++) {
        scratch[c] = 0;
    }
    for (int32_t position = 0; position < p->positions; position++) {
        for (int32_t c = 0; c < p->channels; c++) {
            scratch[c] += dy[position * p->channels + c];
        }
    }
    MCT_NAME(mct_gradient_write)(&writer, scratch, 0, p->channels, db);
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
