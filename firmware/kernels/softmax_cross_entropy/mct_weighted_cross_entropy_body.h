/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_weighted_cross_entropy_<type>. */
#include "mct_softmax_errors_body.h"

/* Logits → weighted errors in Q30, in their place. Returns the loss in nats as Q16. */
static int32_t mct_weighted_errors(const MCT_PARAMS(mct_weighted_cross_entropy) *p, int32_t best,
                                   int32_t label, int32_t *logits) {
    const int32_t count = p->sample.classes + p->pair;
    int64_t above = (int64_t)count * logits[label];
    for (int32_t c = 0; c < count; c++) {
        above -= logits[c];
    }
    const int64_t over_mean = ((above / count) * MCT_LN2_Q16) >> 16;
    const int64_t of_label = mct_label_errors(count, best, label, logits);
    const int64_t others = (over_mean * p->smoothing_q30) >> 30;
    const int64_t nats = mct_clamp64(of_label + others, 0, INT32_MAX);
    const int64_t weight = p->weight_q15[label];
    const int32_t each = p->smoothing_q30 / count;
    logits[label] += p->smoothing_q30;
    for (int32_t c = 0; c < count; c++) {
        logits[c] = (int32_t)(((logits[c] - each) * weight) >> 15);
    }
    return (int32_t)mct_clamp64((((nats * weight) >> 15) * p->largest_weight_q16) >> 16, 0,
                                INT32_MAX);
}

void MCT_NAME(mct_weighted_cross_entropy)(const MCT_PARAMS(mct_weighted_cross_entropy) *p,
                                          const mct_step *step, const int32_t *sums,
                                          const int32_t *label, mct_exponent *exponent,
                                          MCT_GRAD *dy, int32_t *loss_q16, int32_t *prediction,
                                          mct_exponent *output_exponent, int32_t *scratch) {
    int32_t *logits = scratch + p->pair;
    scratch[0] = 0;
    int32_t best = mct_scaled_logits(&p->sample, sums, logits);
    if (output_exponent != NULL) {
        mct_reach reach = MCT_NO_REACH;
        mct_widen_reach(&reach, p->sample.classes, logits, best);
        mct_follow_logits(&p->sample, step, reach, output_exponent);
    }
    best = p->pair ? logits[0] > 0 : best;
    *loss_q16 = mct_weighted_errors(p, best, *label, scratch);
    *prediction = best;
    int32_t largest = p->sample.exact ? 0 : 1 << 30;
    for (int32_t c = 0; p->sample.exact && c < p->sample.classes; c++) {
        largest = mct_max(largest, logits[c] < 0 ? -logits[c] : logits[c]);
    }
    const int8_t chosen = (int8_t)mct_error_exponent(largest);
    mct_write_errors(&p->sample, step, logits, chosen, 0, dy);
    *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
}
