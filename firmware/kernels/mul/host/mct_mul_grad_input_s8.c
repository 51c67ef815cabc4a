/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_mul.h"

typedef struct {
    const int8_t *dy, *other;
    int32_t zero_point;
} mct_mul_job;

static inline void mct_mul_sums(const int8_t *dy, const int8_t *other, int32_t zero_point,
                                int32_t count, int32_t *sums) {
    for (int32_t n = 0; n < count; n++) {
        sums[n] = dy[n] * (other[n] - zero_point);
    }
}

static inline void mct_mul_products(const void *job_, int32_t i, int32_t c, int32_t count,
                                    int32_t *sums) {
    const mct_mul_job *job = job_;
    (void)c;
    mct_mul_sums(job->dy + i, job->other + i, job->zero_point, count, sums);
}

static inline void mct_mul_channel_products(const void *job_, int32_t i, int32_t c, int32_t count,
                                            int32_t *sums) {
    const mct_mul_job *job = job_;
    mct_mul_sums(job->dy + i, job->other + c, job->zero_point, count, sums);
}

void mct_mul_grad_input_s8(const mct_mul_grad_input_s8_params *p, const mct_step *step,
                           const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *other,
                           const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                           int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const mct_mul_job job = {dy, other, p->zero_point};
    const mct_gradients result = {&writer, p->channels, dx};
    if (p->other_per_channel) {
        mct_gradient_map_channels(&result, p->positions, mct_mul_channel_products, &job);
    } else {
        mct_gradient_map(&result, p->positions, mct_mul_products, &job);
    }
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
