/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_binary_cross_entropy_<type>. */
#include "mct_softmax_errors_body.h"

void MCT_NAME(mct_binary_cross_entropy)(const MCT_PARAMS(mct_binary_cross_entropy) *p,
                                        const mct_step *step, const int32_t *sums,
                                        const int32_t *label, mct_exponent *exponent, MCT_GRAD *dy,
                                        int32_t *loss_q16, int32_t *prediction) {
    int32_t pair[2] = {0, 0};
    (void)mct_scaled_logits(p, sums, pair + 1);
    const int32_t best = pair[1] > 0;
    *loss_q16 = mct_label_errors(2, best, *label, pair);
    *prediction = best;
    const int32_t size = pair[1] < 0 ? -pair[1] : pair[1];
    const int8_t chosen = (int8_t)mct_error_exponent(p->exact ? size : 1 << 30);
    mct_write_errors(p, step, pair + 1, chosen, 0, dy);
    *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
}
