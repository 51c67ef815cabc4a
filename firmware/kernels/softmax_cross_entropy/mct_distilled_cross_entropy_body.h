/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_distilled_cross_entropy_<type>. */
#ifdef __GNUC__
#define MCT_PART __attribute__((noinline)) static
#else
#define MCT_PART static
#endif
#include "mct_softmax_errors_body.h"

/* Halves logits of the first classes into `halves`; returns the largest. */
MCT_PART int64_t mct_halved(int32_t known, const int32_t *logits, int32_t *halves) {
    int64_t largest = INT32_MIN;
    for (int32_t c = 0; c < known; c++) {
        halves[c] = logits[c] >> 1;
        largest = halves[c] > largest ? halves[c] : largest;
    }
    return largest;
}

/* Exponentials in Q30 → shares of their total. */
MCT_PART void mct_shares(int32_t known, uint64_t total, int32_t *powers) {
    for (int32_t c = 0; c < known; c++) {
        powers[c] = (int32_t)(((uint64_t)powers[c] << 30) / total);
    }
}

/* Half logits in `p` → p - q in Q30, in their place; `q` is scratch. Returns 2 KL(q || p) in nats as
 * Q16. logits: that p are halves of. */
static int32_t mct_teacher_errors(const MCT_PARAMS(mct_distilled_cross_entropy) *d,
                                  const int32_t *logits, const int32_t *taught, int32_t *p,
                                  int32_t *q) {
    for (int32_t c = 0; c < d->known; c++) {
        q[c] = mct_scaled_logit(&d->sample, c, taught[c]);
    }
    const int64_t top = mct_halved(d->known, logits, p);
    const int64_t top_taught = mct_halved(d->known, q, q);
    const uint64_t total_taught = mct_exponentials(d->known, top_taught, q);
    mct_shares(d->known, total_taught, q);
    int64_t more = 0; /* |q * distance| <= 2^32 * q, and q add up to 2^30 at most */
    for (int32_t c = 0; c < d->known; c++) {
        const int64_t of_taught = mct_scaled_logit(&d->sample, c, taught[c]) >> 1;
        more += q[c] * ((top - p[c]) - (top_taught - of_taught));
    }
    const uint64_t total = mct_exponentials(d->known, top, p);
    mct_shares(d->known, total, p);
    for (int32_t c = 0; c < d->known; c++) {
        p[c] -= q[c];
    }
    const int64_t bits_q16 = mct_log2_q16(total) - mct_log2_q16(total_taught) + (more >> 30);
    return (int32_t)mct_clamp64((bits_q16 * 2 * MCT_LN2_Q16) >> 16, 0, INT32_MAX);
}

void MCT_NAME(mct_distilled_cross_entropy)(const MCT_PARAMS(mct_distilled_cross_entropy) *p,
                                           const mct_step *step, const int32_t *sums,
                                           const int32_t *taught, const int32_t *label,
                                           mct_exponent *exponent, MCT_GRAD *dy, int32_t *loss_q16,
                                           int32_t *prediction, mct_exponent *output_exponent,
                                           int32_t *scratch) {
    const int32_t classes = p->sample.classes;
    int32_t *errors = scratch + classes;
    const int32_t best = mct_scaled_logits(&p->sample, sums, scratch);
    if (output_exponent != NULL) {
        mct_reach reach = MCT_NO_REACH;
        mct_widen_reach(&reach, classes, scratch, best);
        mct_follow_logits(&p->sample, step, reach, output_exponent);
    }
    const int64_t apart = mct_teacher_errors(p, scratch, taught, errors, errors + p->known);
    const int64_t nats = mct_label_errors(classes, best, *label, scratch);
    const int64_t share = p->share_q30;
    const int64_t keep = (1 << 30) - share;
    *loss_q16 = (int32_t)((nats * keep + apart * share) >> 30);
    *prediction = best;
    int32_t largest = p->sample.exact ? 0 : 1 << 30;
    for (int32_t c = 0; c < classes; c++) {
        const int64_t of_teacher = c < p->known ? errors[c] : 0;
        scratch[c] = (int32_t)((scratch[c] * keep + of_teacher * share) >> 30);
        if (p->sample.exact) {
            largest = mct_max(largest, scratch[c] < 0 ? -scratch[c] : scratch[c]);
        }
    }
    const int8_t chosen = (int8_t)mct_error_exponent(largest);
    mct_write_errors(&p->sample, step, scratch, chosen, 0, dy);
    *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
}
