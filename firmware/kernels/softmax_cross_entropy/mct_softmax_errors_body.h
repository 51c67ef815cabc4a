/* SPDX-License-Identifier: Apache-2.0 */
/* What the bodies of the cross-entropies share: of one position's sums. */
#include "mct_fixedpoint.h"

#define MCT_LN2_Q16 45426
#define MCT_EXP2_CUTOFF_Q16 (INT64_C(30) << 16)
#define MCT_NEAR_Q16 (INT64_C(16) << 16)
#define MCT_OUTPUT_WINDOW 1024u
#ifndef MCT_PART
#define MCT_PART static inline /* a body that needs a part several times keeps it out of line */
#endif

/* 2^-x in Q30 for x >= 0 in Q16: a polynomial of degree 5 for the fraction, error below 2^-24. */
MCT_PART int32_t mct_exp2_negative_q30(int64_t x_q16) {
    static const int32_t coefficients[] = {-1017428,  9890102,    -59377501,
                                           257890763, -744256846, 1073741765};
    if (x_q16 >= MCT_EXP2_CUTOFF_Q16) {
        return 0;
    }
    int64_t result = coefficients[0];
    for (int32_t i = 1; i < 6; i++) {
        result = coefficients[i] + ((result * (x_q16 & 0xFFFF)) >> 16);
    }
    return (int32_t)(result >> (x_q16 >> 16));
}

/* log2(x) in Q16 for x >= 1, rounded down: squares the mantissa and counts what overflows. */
MCT_PART int64_t mct_log2_q16(uint64_t x) {
    const int32_t whole = mct_bit_length64(x) - 1;
    uint64_t mantissa = whole <= 31 ? x << (31 - whole) : x >> (whole - 31);
    uint32_t fraction = 1; /* its highest bit counts: compilers do not write it out 16 times */
    while (fraction < UINT32_C(1) << 16) {
        mantissa = (mantissa * mantissa) >> 31;
        const uint32_t overflow = (uint32_t)(mantissa >> 32);
        fraction = fraction * 2 + overflow;
        mantissa >>= overflow;
    }
    return ((int64_t)(whole - 1) * 65536) + fraction;
}

/* A sum → logit * log2(e) in Q16. */
MCT_PART int32_t mct_scaled_logit(const MCT_PARAMS(mct_softmax_cross_entropy) *p, int32_t c,
                                  int32_t sum) {
    const int32_t m = p->per_class ? c : 0;
    const int32_t right = mct_shift_right(p->logit_shift[m]);
    const int64_t scaled = mct_scale_to_fraction(sum, p->logit_mult_q31[m], right);
    return (int32_t)mct_clamp64(scaled, INT32_MIN, INT32_MAX);
}

/* sums → logits * log2(e) in Q16, into `logits`; returns the index of the first largest. */
static inline int32_t mct_scaled_logits(const MCT_PARAMS(mct_softmax_cross_entropy) *p,
                                        const int32_t *sums, int32_t *logits) {
    int32_t best = 0;
    for (int32_t c = 0; c < p->classes; c++) {
        logits[c] = mct_scaled_logit(p, c, sums[c]);
        best = logits[c] > logits[best] ? c : best;
    }
    return best;
}

/* How far logits reach that the outputs have to hold: the largest of a position, and the lowest of
 * those that are near the largest there. */
typedef struct {
    int64_t top, bottom;
} mct_reach;

#define MCT_NO_REACH ((mct_reach){INT64_MIN, INT64_MAX})

/* Takes one more position's logits into account. */
static inline void mct_widen_reach(mct_reach *reach, int32_t classes, const int32_t *logits,
                                   int32_t best) {
    const int64_t top = logits[best];
    int64_t bottom = top;
    for (int32_t c = 0; c < classes; c++) {
        bottom = logits[c] < bottom ? logits[c] : bottom;
    }
    bottom = bottom < top - MCT_NEAR_Q16 ? top - MCT_NEAR_Q16 : bottom;
    reach->top = top > reach->top ? top : reach->top;
    reach->bottom = bottom < reach->bottom ? bottom : reach->bottom;
}

/* The outputs' exponent after a sample whose logits reach so far. */
static inline void mct_follow_logits(const MCT_PARAMS(mct_softmax_cross_entropy) *p,
                                     const mct_step *step, mct_reach reach,
                                     mct_exponent *exponent) {
    const int64_t high = p->output.high_q16;
    const int64_t low = p->output.low_q16;
    int32_t needed = 0;
    while (needed < p->output.exponent_limit &&
           (reach.top > (high << needed) || -reach.bottom > (low << needed))) {
        needed++;
    }
    if (step->sample == 0 && step->update % MCT_OUTPUT_WINDOW == 0) {
        exponent->older = exponent->recent;
        exponent->recent = 0;
    }
    exponent->recent = (int8_t)mct_max(exponent->recent, needed);
    exponent->now = (int8_t)mct_max(exponent->recent, exponent->older);
}

/* Logits → exponentials in Q30 relative to the largest, in their place. Returns their sum. */
MCT_PART uint64_t mct_exponentials(int32_t classes, int64_t largest, int32_t *logits) {
    uint64_t total = 0;
    for (int32_t c = 0; c < classes; c++) {
        logits[c] = mct_exp2_negative_q30(largest - logits[c]);
        total += (uint64_t)logits[c];
    }
    return total;
}

/* One position's logits → errors in Q30, in their place. Returns its loss in nats as Q16. */
static int32_t mct_label_errors(int32_t classes, int32_t best, int32_t label, int32_t *logits) {
    const int64_t largest = logits[best];
    const int64_t label_below = largest - logits[label];
    const uint64_t total = mct_exponentials(classes, largest, logits);
    for (int32_t c = 0; c < classes; c++) {
        logits[c] = (int32_t)(((uint64_t)logits[c] << 30) / total);
    }
    logits[label] -= 1 << 30;
    const int64_t bits_q16 = mct_log2_q16(total) - (INT64_C(30) << 16) + label_below;
    return (int32_t)mct_clamp64((bits_q16 * MCT_LN2_Q16) >> 16, 0, INT32_MAX);
}

/* The exponent with which errors up to `largest` (Q30) fit the gradient. */
static int32_t mct_error_exponent(int32_t largest) {
    return mct_bit_length64((uint64_t)largest) - 30 - MCT_GRAD_BITS;
}

/* An error in Q30 → gradient. index: of it among all. */
static inline MCT_GRAD mct_error_rounded(const MCT_PARAMS(mct_softmax_cross_entropy) *p,
                                         uint32_t key, int32_t c, int32_t error, int32_t exponent,
                                         uint32_t index) {
    const int64_t limit = (INT64_C(1) << MCT_GRAD_BITS) - 1;
    const int32_t m = p->per_class ? c : 0;
    const int32_t right = mct_shift_right(p->error_shift[m] - 30 - exponent);
    const int64_t fraction = mct_scale_to_fraction(error, p->error_mult_q31[m], right);
    const int64_t rounded = (fraction + mct_random16(key, index)) >> MCT_FRACTION_BITS;
    return (MCT_GRAD)mct_clamp64(rounded, -limit, limit);
}

/* Errors in Q30 → gradient. first: the index of the first of them among all. */
static inline void mct_write_errors(const MCT_PARAMS(mct_softmax_cross_entropy) *p,
                                    const mct_step *step, const int32_t *errors, int32_t exponent,
                                    uint32_t first, MCT_GRAD *dy) {
    const uint32_t key = mct_node_key(step->key, p->salt);
    for (int32_t c = 0; c < p->classes; c++) {
        dy[c] = mct_error_rounded(p, key, c, errors[c], exponent, first + (uint32_t)c);
    }
}
