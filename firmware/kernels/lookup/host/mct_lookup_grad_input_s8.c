/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_lookup.h"

typedef struct {
    const int8_t *dy, *x;
    const int16_t *slopes;
} mct_lookup_job;

static inline void mct_lookup_products(const void *job_, int32_t i, int32_t c, int32_t count,
                                       int32_t *sums) {
    const mct_lookup_job *job = job_;
    const int8_t *dy = job->dy + i, *x = job->x + i;
    const int16_t *slopes = job->slopes + 128;
    (void)c;
    for (int32_t n = 0; n < count; n++) {
        sums[n] = dy[n] * slopes[x[n]];
    }
}

void mct_lookup_grad_input_s8(const mct_lookup_grad_input_s8_params *p, const mct_step *step,
                              const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                              const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                              int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const mct_lookup_job job = {dy, x, p->slopes};
    const mct_gradients result = {&writer, p->channels, dx};
    mct_gradient_map(&result, p->positions, mct_lookup_products, &job);
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
