/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_position_cross_entropy_<type>. */
#include "mct_softmax_errors_body.h"

/* Of all positions. nats_q16, right: of the counted ones. */
typedef struct {
    uint64_t nats_q16;
    int32_t counted, right, largest_error;
    mct_reach reach;
} mct_position_losses;

static mct_position_losses mct_losses_of_positions(const MCT_PARAMS(mct_position_cross_entropy) *p,
                                                   const int32_t *sums, const uint8_t *labels,
                                                   int32_t *scratch) {
    const int32_t classes = p->position.classes;
    mct_position_losses all = {.reach = MCT_NO_REACH};
    for (int32_t n = 0; n < p->positions; n++) {
        const int32_t best = mct_scaled_logits(&p->position, sums + n * classes, scratch);
        mct_widen_reach(&all.reach, classes, scratch, best);
        if (labels[n] != MCT_IGNORED) {
            all.nats_q16 += (uint64_t)mct_label_errors(classes, best, labels[n], scratch);
            all.counted++;
            all.right += best == labels[n];
            /* the label's is the largest: it is what the others add up to, or more by rounding */
            all.largest_error = mct_max(all.largest_error, -scratch[labels[n]]);
        }
    }
    return all;
}

void MCT_NAME(mct_position_cross_entropy)(const MCT_PARAMS(mct_position_cross_entropy) *p,
                                          const mct_step *step, const int32_t *sums,
                                          const uint8_t *labels, mct_exponent *exponent,
                                          MCT_GRAD *dy, int32_t *loss_q16, int32_t *right,
                                          mct_exponent *output_exponent, int32_t *scratch) {
    const int32_t classes = p->position.classes;
    const mct_position_losses all = mct_losses_of_positions(p, sums, labels, scratch);
    if (output_exponent != NULL) {
        mct_follow_logits(&p->position, step, all.reach, output_exponent);
    }
    *loss_q16 = all.counted == 0 ? 0 : (int32_t)(all.nats_q16 / (uint64_t)all.counted);
    *right = all.right;
    const int32_t error = p->position.exact ? all.largest_error : 1 << 30;
    const int8_t chosen = (int8_t)mct_error_exponent(error);
    for (int32_t n = 0; n < p->positions; n++) { /* again: to keep all errors takes too much room */
        const int32_t first = n * classes;
        if (labels[n] == MCT_IGNORED) {
            memset(dy + first, 0, (size_t)classes * sizeof *dy);
        } else {
            const int32_t best = mct_scaled_logits(&p->position, sums + first, scratch);
            (void)mct_label_errors(classes, best, labels[n], scratch);
            mct_write_errors(&p->position, step, scratch, chosen, (uint32_t)first, dy + first);
        }
    }
    *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
}
