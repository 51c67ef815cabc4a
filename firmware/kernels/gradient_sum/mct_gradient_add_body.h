/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_gradient_add_<type>. */
#include "mct_gradient_sum_body.h"

void MCT_NAME(mct_gradient_add)(const MCT_PARAMS(mct_gradient_add) *p, const mct_step *step,
                                const MCT_GRAD *a, const mct_exponent *a_exponent,
                                const MCT_GRAD *b, const mct_exponent *b_exponent,
                                const uint8_t *mask, mct_exponent *exponent, MCT_GRAD *g) {
    mct_exponent_begin(exponent, step);
    const uint32_t key = mct_node_key(step->key, p->a.salt);
    const int32_t change_a = a_exponent->now - exponent->now;
    const int32_t change_b = b_exponent->now - exponent->now;
    uint64_t seen = 0;
    for (int32_t i = 0; i < p->positions * p->channels_out; i++) {
        const int32_t c = i % p->channels_out;
        const int64_t sum = mct_term(&p->a, change_a, a[i], c) + mct_term(&p->b, change_b, b[i], c);
        const int64_t fraction = mct_passes(mask, i) ? sum : 0;
        seen |= (uint64_t)(fraction ^ (fraction >> 63));
        g[i] = mct_rounded(fraction, key, i);
    }
    mct_exponent_observe(exponent, seen, MCT_GRAD_BITS);
}
