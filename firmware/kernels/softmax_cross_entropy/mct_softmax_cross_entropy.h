/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy loss of softmax(logits), its gradient, and the predicted class, in fixed point.
 *
 * logit[c] = sums[c] * scale[c]; loss = -ln(softmax(logits)[label]) as Q16; dy[c] =
 * (softmax(logits)[c] - (c == label)) * scale[c] / largest scale, times 2^-exponent, stochastically
 * rounded and saturated.
 *
 * logit_mult_q31, logit_shift: scale[c] * log2(e); error_mult_q31, error_shift: scale[c] / largest
 * scale; one entry if per_class is 0. exact: 1 chooses the exponent for this sample alone, 0 the one
 * that fits every sample, so that gradients can be added.
 *
 * output_exponent: NULL, or of the int8 outputs, whose scale follows the logits. At exponent 0 they
 * reach from -output.low_q16 to output.high_q16 (logits * log2(e), Q16). It is the largest that a
 * sample needed in the last 1024 to 2048 updates, this one included, 0 to output.exponent_limit; a
 * sample needs its largest logit not to clip, nor any other of more than 2^-16 of its probability.
 * sums, dy: [classes]   scratch: classes int32   0 <= label < classes */
#ifndef MCT_SOFTMAX_CROSS_ENTROPY_H
#define MCT_SOFTMAX_CROSS_ENTROPY_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t high_q16, low_q16, exponent_limit;
} mct_output_range;

typedef struct {
    int32_t classes;
    const int32_t *logit_mult_q31;
    const int8_t *logit_shift;
    const int32_t *error_mult_q31;
    const int8_t *error_shift;
    int32_t per_class;
    int32_t exact;
    uint32_t salt;
    mct_output_range output;
} mct_softmax_cross_entropy_s8_params;
typedef mct_softmax_cross_entropy_s8_params mct_softmax_cross_entropy_s16_params;

void mct_softmax_cross_entropy_s8(const mct_softmax_cross_entropy_s8_params *p,
                                  const mct_step *step, const int32_t *sums, const int32_t *label,
                                  mct_exponent *exponent, int8_t *dy, int32_t *loss_q16,
                                  int32_t *prediction, mct_exponent *output_exponent,
                                  int32_t *scratch);
void mct_softmax_cross_entropy_s16(const mct_softmax_cross_entropy_s16_params *p,
                                   const mct_step *step, const int32_t *sums, const int32_t *label,
                                   mct_exponent *exponent, int16_t *dy, int32_t *loss_q16,
                                   int32_t *prediction, mct_exponent *output_exponent,
                                   int32_t *scratch);

/* The loss of the pair (0, logit), for a network with one output, a sigmoid: dy and sums are of one
 * element, prediction is 1 where the logit is above 0. p->classes is 1; p->output is not read.
 * 0 <= label < 2 */
typedef mct_softmax_cross_entropy_s8_params mct_binary_cross_entropy_s8_params;
typedef mct_softmax_cross_entropy_s8_params mct_binary_cross_entropy_s16_params;

void mct_binary_cross_entropy_s8(const mct_binary_cross_entropy_s8_params *p, const mct_step *step,
                                 const int32_t *sums, const int32_t *label, mct_exponent *exponent,
                                 int8_t *dy, int32_t *loss_q16, int32_t *prediction);
void mct_binary_cross_entropy_s16(const mct_binary_cross_entropy_s16_params *p,
                                  const mct_step *step, const int32_t *sums, const int32_t *label,
                                  mct_exponent *exponent, int16_t *dy, int32_t *loss_q16,
                                  int32_t *prediction);

/* The softmax' or, if pair, the binary one (dy and sums are of one element then), whose classes weigh
 * differently, and whose labels count as onehot * (1 - s) + s / classes with the smoothing s.
 *
 * weight_q15: of each class, as a share of the largest, 0 to 2^15, by which loss and error are
 * multiplied; the largest itself, largest_weight_q16, is in the loss, not in dy. smoothing_q30: s, 0
 * to 2^30. output_exponent: NULL if pair. scratch: classes + pair int32   1 <= largest_weight_q16 */
typedef struct {
    mct_softmax_cross_entropy_s8_params sample;
    const int32_t *weight_q15;
    int32_t largest_weight_q16;
    int32_t smoothing_q30;
    int32_t pair;
} mct_weighted_cross_entropy_s8_params;
typedef mct_weighted_cross_entropy_s8_params mct_weighted_cross_entropy_s16_params;

void mct_weighted_cross_entropy_s8(const mct_weighted_cross_entropy_s8_params *p,
                                   const mct_step *step, const int32_t *sums, const int32_t *label,
                                   mct_exponent *exponent, int8_t *dy, int32_t *loss_q16,
                                   int32_t *prediction, mct_exponent *output_exponent,
                                   int32_t *scratch);
void mct_weighted_cross_entropy_s16(const mct_weighted_cross_entropy_s16_params *p,
                                    const mct_step *step, const int32_t *sums, const int32_t *label,
                                    mct_exponent *exponent, int16_t *dy, int32_t *loss_q16,
                                    int32_t *prediction, mct_exponent *output_exponent,
                                    int32_t *scratch);

/* The softmax' mixed with the distance to what other sums say, those of the classifier in flash:
 * (1 - s) * loss + s * 2 KL(q || p), where p and q are the softmaxes of half the logits of sums and of
 * taught, over the first `known` classes; dy likewise, where the second part's is p - q.
 *
 * share_q30: s, 0 to 2^30. 1 <= known <= classes   taught: [classes], with the scales of sums
 * scratch: classes + 2 * known int32 */
typedef struct {
    mct_softmax_cross_entropy_s8_params sample;
    int32_t known;
    int32_t share_q30;
} mct_distilled_cross_entropy_s8_params;
typedef mct_distilled_cross_entropy_s8_params mct_distilled_cross_entropy_s16_params;

void mct_distilled_cross_entropy_s8(const mct_distilled_cross_entropy_s8_params *p,
                                    const mct_step *step, const int32_t *sums,
                                    const int32_t *taught, const int32_t *label,
                                    mct_exponent *exponent, int8_t *dy, int32_t *loss_q16,
                                    int32_t *prediction, mct_exponent *output_exponent,
                                    int32_t *scratch);
void mct_distilled_cross_entropy_s16(const mct_distilled_cross_entropy_s16_params *p,
                                     const mct_step *step, const int32_t *sums,
                                     const int32_t *taught, const int32_t *label,
                                     mct_exponent *exponent, int16_t *dy, int32_t *loss_q16,
                                     int32_t *prediction, mct_exponent *output_exponent,
                                     int32_t *scratch);

/* Cross-entropy at each of many positions: the pixels of an image, the steps of a sequence.
 *
 * labels: [positions], of which MCT_IGNORED ones have no loss and a gradient of 0. loss_q16: the mean
 * over the others, 0 if there are none; right: how many of these have their largest logit at the
 * label. dy: of each position as above, with one exponent for all, which is that of the largest error
 * anywhere if position.exact. output_exponent: as if each position were a sample, ignored ones too.
 * sums, dy: [positions][classes]   scratch: classes int32   0 <= label < classes <= MCT_IGNORED
 * positions * classes < 2^31 */
#define MCT_IGNORED 255

typedef struct {
    mct_softmax_cross_entropy_s8_params position;
    int32_t positions;
} mct_position_cross_entropy_s8_params;
typedef mct_position_cross_entropy_s8_params mct_position_cross_entropy_s16_params;

void mct_position_cross_entropy_s8(const mct_position_cross_entropy_s8_params *p,
                                   const mct_step *step, const int32_t *sums, const uint8_t *labels,
                                   mct_exponent *exponent, int8_t *dy, int32_t *loss_q16,
                                   int32_t *right, mct_exponent *output_exponent, int32_t *scratch);
void mct_position_cross_entropy_s16(const mct_position_cross_entropy_s16_params *p,
                                    const mct_step *step, const int32_t *sums,
                                    const uint8_t *labels, mct_exponent *exponent, int16_t *dy,
                                    int32_t *loss_q16, int32_t *right,
                                    mct_exponent *output_exponent, int32_t *scratch);

/* Independent sigmoids: each output says by itself whether its label is 1. As the binary one, of each.
 *
 * labels: [positions][classes], each 0, 1, or MCT_IGNORED, which has no loss and a gradient of 0.
 * loss_q16: the sum over the labels, divided by the positions; right: how many labels have their
 * output above 0 where they are 1, else not. A label t counts as t * (1 - s) + s / 2 with the
 * smoothing s; half_smoothing_q30: s / 2, 0 to 2^29. weight_q15: [classes][2], of label 0 and label 1,
 * as shares of the largest, 0 to 2^15, by which loss and error are multiplied; the largest itself,
 * largest_weight_q16, is in the loss, not in dy. The exponent is one for all, that of the largest
 * error if output.exact.
 * sums, dy: [positions][classes]   positions * classes < 2^31   1 <= largest_weight_q16 */
typedef struct {
    mct_softmax_cross_entropy_s8_params output;
    int32_t positions;
    const int32_t *weight_q15;
    int32_t largest_weight_q16;
    int32_t half_smoothing_q30;
} mct_sigmoid_cross_entropy_s8_params;
typedef mct_sigmoid_cross_entropy_s8_params mct_sigmoid_cross_entropy_s16_params;

void mct_sigmoid_cross_entropy_s8(const mct_sigmoid_cross_entropy_s8_params *p,
                                  const mct_step *step, const int32_t *sums, const uint8_t *labels,
                                  mct_exponent *exponent, int8_t *dy, int32_t *loss_q16,
                                  int32_t *right);
void mct_sigmoid_cross_entropy_s16(const mct_sigmoid_cross_entropy_s16_params *p,
                                   const mct_step *step, const int32_t *sums, const uint8_t *labels,
                                   mct_exponent *exponent, int16_t *dy, int32_t *loss_q16,
                                   int32_t *right);

#ifdef __cplusplus
}
#endif

#endif
