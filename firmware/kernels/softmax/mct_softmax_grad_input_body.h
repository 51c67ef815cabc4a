/* Body of mct_softmax_grad_input_<type>. */

void MCT_NAME(mct_softmax_grad_input)(const MCT_PARAMS(mct_softmax_grad_input) *p,
                                      const mct_step *step, const MCT_GRAD *dy,
                                      const mct_exponent *dy_exponent, const int8_t *y,
                                      const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *dx,
                                      MCT_ACC *scratch) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    for (int32_t row = 0; row < p->rows; row++) {
        const int32_t first = row * p->classes;
        MCT_ACC total = 0, weighted = 0;
        for (int32_t c = 0; c < p->classes; c++) {
            const int32_t q = y[first + c] + 128;
            total += q;
            weighted += (MCT_ACC)dy[first + c] * q;
        }
        for (int32_t c = 0; c < p->classes; c++) {
            scratch[c] = (total * dy[first + c] - weighted) * (y[first + c] + 128);
        }
        MCT_NAME(mct_gradient_write)(&writer, scratch, first, p->classes, dx + first);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
