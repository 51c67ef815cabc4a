/* Learning rates and their schedules, in integers: the same bits on the host and on every chip. */
#ifndef MCT_SCHEDULE_H
#define MCT_SCHEDULE_H

#include <stdint.h>

/* rate = mult_q31 * 2^(shift - 31); mult_q31 is 0 or in 2^30 … 2^31 - 1 */
typedef struct {
    int32_t mult_q31;
    int32_t shift;
} mct_learning_rate;

/* rate * fraction / 2^31 for 0 <= fraction <= 2^31 - 1. */
mct_learning_rate mct_rate_times(mct_learning_rate rate, int32_t fraction_q31);

/* Cosine with warm-up: rises linearly over the first `warmup` steps, then falls along half a cosine
 * to 0 at `total`. step counts from 0. 0 <= warmup <= total, step < total < 2^31. */
mct_learning_rate mct_schedule_cosine(mct_learning_rate base, uint32_t step, uint32_t warmup,
                                      uint32_t total);

#endif
