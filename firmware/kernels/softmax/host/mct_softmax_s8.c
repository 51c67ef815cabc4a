/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_softmax.h"

#include "mct_softmax_exps.h"
#include "mct_threads.h"

#define MCT_SOFTMAX_PRODUCTS 32 /* that take as long as an element */

typedef struct {
    const mct_softmax_s8_params *p;
    int32_t exponent;
    const int8_t *x;
    int8_t *y;
} mct_softmax_job;

static void mct_softmax_part(const void *job_, int32_t part, int32_t parts) {
    const mct_softmax_job *job = job_;
    const mct_softmax_s8_params *p = job->p;
    const int32_t end = mct_part_begin(p->rows, part + 1, parts, 1);
    mct_softmax_exps exps;
    mct_exps_begin(&exps, p->mult_q31, p->left_shift + job->exponent,
                   -(-p->diff_min >> job->exponent));
    for (int32_t row = mct_part_begin(p->rows, part, parts, 1); row < end; row++) {
        const int8_t *x = job->x + row * p->classes;
        int8_t *y = job->y + row * p->classes;
        mct_exps_row(&exps, x, p->classes);
        for (int32_t c = 0; c < p->classes; c += MCT_LANES) {
            mct_v_clamp_store(mct_v_probability(&exps, c, 8) - 128, -128, 127, c, p->classes - c, y,
                              NULL);
        }
    }
}

void mct_softmax_s8(const mct_softmax_s8_params *p, const int8_t *x, const mct_exponent *x_exponent,
                    int8_t *y) {
    const int32_t exponent =
        x_exponent != NULL ? mct_clamp(x_exponent->now, 0, p->exponent_limit) : 0;
    const mct_softmax_job job = {p, exponent, x, y};
    const int64_t elements = (int64_t)p->rows * p->classes;
    mct_threads_run(mct_softmax_part, &job, mct_threads_for(elements * MCT_SOFTMAX_PRODUCTS));
}
