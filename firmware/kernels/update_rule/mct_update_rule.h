/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of updates besides SGD. A rule turns the gradient of an output channel into a direction, and
 * what is subtracted is learning_rate * rate * direction, as mct_update.h has it for gradients.
 *
 * mcutrain/update_rules has the same rules in numpy. Another rule is one more C file here, and its
 * name at the end of this header. */
#ifndef MCT_UPDATE_RULE_H
#define MCT_UPDATE_RULE_H

#include "mct_update.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rule keeps of a tensor, in the state. second: NULL if it keeps one thing. */
typedef struct {
    void *first;
    void *second;
} mct_slots;

/* The weights of output channel c: number j is at first + j * stride. */
typedef struct {
    int32_t c, first, stride, count;
} mct_channel;

/* sums: of the channel's gradient, [count], within int32; a rule may overwrite them. Returns by what
 * they are then multiplied. */
typedef mct_rate mct_direct(const mct_updater *u, const mct_slots *slots, mct_channel channel,
                            int32_t *sums);

typedef struct {
    mct_slots slots;
    mct_direct *direct;
} mct_update_rule;

/* Updates a channel's weights, or its int32 bias, or its bias' int16 difference. */
void mct_adapt_s8(const mct_updater *u, const mct_update_rule *rule, mct_channel channel,
                  int32_t *sums);
void mct_adapt_bias_s32(const mct_updater *u, const mct_update_rule *rule, int32_t c, int32_t sum);
void mct_adapt_bias_s16(const mct_updater *u, const mct_update_rule *rule, int32_t c, int32_t sum);

/* For rules: the rate of output channel c, of directions in units of 2^exponent * root_q31 / 2^31. */
#define MCT_NO_ROOT INT32_MIN
mct_rate mct_direction_rate(const mct_updater *u, int32_t c, int32_t exponent, int32_t root_q31);

/* Bits of the largest |sum|, and sum * 2^left, rounded down; left is at least -31 then. */
int32_t mct_sums_bits(const int32_t *sums, int32_t count);
int32_t mct_moved(int32_t sum, int32_t left);

mct_direct mct_momentum, mct_rmsprop;

#ifdef __cplusplus
}
#endif

#endif
