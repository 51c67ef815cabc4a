/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add.h"
#include "mct_requantize_tile.h"
#include "mct_threads.h"

typedef struct {
    const mct_add_s8_params *p;
    const int8_t *a, *b;
    int8_t *y;
    uint8_t *mask;
} mct_add_job;

static inline mct_v_scale mct_v_scaled(const mct_scaled *scaled) {
    return mct_v_scale_of(mct_v_all(scaled->mult_q31), mct_v_all(scaled->shift));
}

static void mct_add_part(const void *job_, int32_t part, int32_t parts) {
    const mct_add_job *job = job_;
    const mct_add_s8_params *p = job->p;
    const mct_v_scale scale_a = mct_v_scaled(&p->a);
    const mct_v_scale scale_b = mct_v_scaled(&p->b);
    const mct_v_scale scale_y = mct_v_scaled(&p->y);
    const int32_t one = 1 << p->left_shift;
    const int32_t end = mct_part_begin(p->elements, part + 1, parts, 64);
    for (int32_t i = mct_part_begin(p->elements, part, parts, 64); i < end; i += MCT_LANES) {
        const int32_t lanes = mct_min(end - i, MCT_LANES);
        const mct_v32 as = (mct_v_load_s8(job->a + i, lanes) - p->a.zero_point) * one;
        const mct_v32 bs = (mct_v_load_s8(job->b + i, lanes) - p->b.zero_point) * one;
        const mct_v32 sum = mct_v_requantize(&scale_a, as) + mct_v_requantize(&scale_b, bs);
        const mct_v32 scaled = mct_v_requantize(&scale_y, sum) + p->y.zero_point;
        mct_v_clamp_store(scaled, p->low, p->high, i, lanes, job->y, job->mask);
    }
}

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    const mct_add_job job = {p, a, b, y, mask};
    const int64_t products = (int64_t)p->elements * MCT_PRODUCTS_OF_AN_ELEMENT;
    mct_mask_clear(mask, p->elements);
    mct_threads_run(mct_add_part, &job, mct_threads_for(products));
}
