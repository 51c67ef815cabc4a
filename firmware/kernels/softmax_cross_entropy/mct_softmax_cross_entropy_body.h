/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_softmax_cross_entropy_<type>. */
#include "mct_softmax_errors_body.h"

/* The size of the largest error that the exponent is for. */
static int32_t mct_largest_error(const MCT_PARAMS(mct_softmax_cross_entropy) *p,
                                 const int32_t *errors) {
    int32_t largest = p->exact ? 0 : 1 << 30;
    for (int32_t c = 0; p->exact && c < p->classes; c++) {
        largest = mct_max(largest, errors[c] < 0 ? -errors[c] : errors[c]);
    }
    return largest;
}

void MCT_NAME(mct_softmax_cross_entropy)(const MCT_PARAMS(mct_softmax_cross_entropy) *p,
                                         const mct_step *step, const int32_t *sums,
                                         const int32_t *label, mct_exponent *exponent, MCT_GRAD *dy,
                                         int32_t *loss_q16, int32_t *prediction,
                                         mct_exponent *output_exponent, int32_t *scratch) {
    const int32_t best = mct_scaled_logits(p, sums, scratch);
    if (output_exponent != NULL) {
        mct_reach reach = MCT_NO_REACH;
        mct_widen_reach(&reach, p->classes, scratch, best);
        mct_follow_logits(p, step, reach, output_exponent);
    }
    *loss_q16 = mct_label_errors(p->classes, best, *label, scratch);
    *prediction = best;
    const int8_t chosen = (int8_t)mct_error_exponent(mct_largest_error(p, scratch));
    mct_write_errors(p, step, scratch, chosen, 0, dy);
    *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
}
