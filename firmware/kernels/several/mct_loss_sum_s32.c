/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_several.h"

void mct_loss_sum_s32(const mct_loss_sum_s32_params *p, const int32_t *a, const int32_t *b,
                      const int32_t *c, const int32_t *d, const int32_t *e, const int32_t *f,
                      const int32_t *g, const int32_t *h, const int32_t *said, int32_t *loss,
                      int32_t *prediction) {
    const int32_t *const losses[] = {a, b, c, d, e, f, g, h};
    int64_t total = 0;
    for (int32_t i = 0; i < p->count; i++) {
        total += (losses[i][0] * (int64_t)p->weight_q24[i]) >> 24;
    }
    *loss = (int32_t)(total < INT32_MAX ? total : INT32_MAX);
    *prediction = said ? *said : 0;
}
