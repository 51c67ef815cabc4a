#include "mct_softmax.h"

#include "mct_softmax_exps.h"

void mct_softmax_s8(const mct_softmax_s8_params *p, const int8_t *x, const mct_exponent *x_exponent,
                    int8_t *y) {
    const int32_t exponent =
        x_exponent != NULL ? mct_clamp(x_exponent->now, 0, p->exponent_limit) : 0;
    mct_softmax_exps exps;
    mct_exps_begin(&exps, p->mult_q31, p->left_shift + exponent, -(-p->diff_min >> exponent));
    for (int32_t row = 0; row < p->rows; row++, x += p->classes, y += p->classes) {
        mct_exps_row(&exps, x, p->classes);
        for (int32_t c = 0; c < p->classes; c += MCT_LANES) {
            mct_v_clamp_store(mct_v_probability(&exps, c, 8) - 128, -128, 127, c, p->classes - c, y,
                              NULL);
        }
    }
}
