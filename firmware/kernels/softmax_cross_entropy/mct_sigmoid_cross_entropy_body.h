/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_sigmoid_cross_entropy_<type>. */
#include "mct_softmax_errors_body.h"

/* What one output says. error: weighted, in Q30; nats_q16: its loss, as a share of the largest
 * weight. */
typedef struct {
    int32_t error, nats_q16, is_right;
} mct_label_loss;

static mct_label_loss mct_loss_of_label(const MCT_PARAMS(mct_sigmoid_cross_entropy) *p,
                                        int32_t channel, int32_t sum, int32_t label) {
    const int32_t z = mct_scaled_logit(&p->output, channel, sum);
    int32_t pair[2] = {0, z};
    const int64_t of_label = mct_label_errors(2, z > 0, label, pair);
    const int64_t above = label == 1 ? z : -(int64_t)z;
    const int64_t other = (((above * MCT_LN2_Q16) >> 16) * p->half_smoothing_q30) >> 30;
    const int64_t half = label == 1 ? p->half_smoothing_q30 : -(int64_t)p->half_smoothing_q30;
    const int64_t nats = mct_clamp64(of_label + other, 0, INT32_MAX);
    const int64_t weight = p->weight_q15[2 * channel + label];
    return (mct_label_loss){.error = (int32_t)(((pair[1] + half) * weight) >> 15),
                            .nats_q16 = (int32_t)((nats * weight) >> 15),
                            .is_right = (z > 0) == label};
}

void MCT_NAME(mct_sigmoid_cross_entropy)(const MCT_PARAMS(mct_sigmoid_cross_entropy) *p,
                                         const mct_step *step, const int32_t *sums,
                                         const uint8_t *labels, mct_exponent *exponent,
                                         MCT_GRAD *dy, int32_t *loss_q16, int32_t *right) {
    const int32_t channels = p->output.classes;
    const int32_t count = p->positions * channels;
    int64_t total = 0;
    int32_t largest = p->output.exact ? 0 : 1 << 30;
    int32_t are_right = 0;
    for (int32_t n = 0; n < count; n++) {
        if (labels[n] != MCT_IGNORED) {
            const mct_label_loss found = mct_loss_of_label(p, n % channels, sums[n], labels[n]);
            total += found.nats_q16;
            are_right += found.is_right;
            largest = mct_max(largest, found.error < 0 ? -found.error : found.error);
        }
    }
    const int64_t mean = mct_clamp64(total / p->positions, 0, INT32_MAX);
    *loss_q16 = (int32_t)mct_clamp64((mean * p->largest_weight_q16) >> 16, 0, INT32_MAX);
    *right = are_right;
    const int8_t chosen = (int8_t)mct_error_exponent(largest);
    const uint32_t key = mct_node_key(step->key, p->output.salt);
    for (int32_t n = 0; n < count; n++) { /* again: to keep all errors takes too much room */
        const int32_t c = n % channels;
        dy[n] = 0;
        if (labels[n] != MCT_IGNORED) {
            const int32_t error = mct_loss_of_label(p, c, sums[n], labels[n]).error;
            dy[n] = mct_error_rounded(&p->output, key, c, error, chosen, (uint32_t)n);
        }
    }
    *exponent = (mct_exponent){.now = chosen, .recent = chosen, .older = chosen};
}
