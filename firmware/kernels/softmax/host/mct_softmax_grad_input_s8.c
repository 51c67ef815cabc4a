/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_softmax.h"
#include "mct_softmax_exps.h"

#define MCT_BACK_PRODUCTS 64 /* that take as long as an element */

/* (difference * q + 1/2) / 2^MCT_PROBABILITY_BITS, whose product takes more than 32 bits. */
static inline mct_v32 mct_v_weighted(mct_v32 difference, mct_v32 q) {
    const int64_t half = 1 << (MCT_PROBABILITY_BITS - 1);
    const mct_v64 even = mct_v_mul_even(difference, q) + half;
    const mct_v64 odd = mct_v_mul_even(mct_v_odd(difference), mct_v_odd(q)) + half;
    return mct_v_interleave((mct_v64)((mct_vu64)even >> MCT_PROBABILITY_BITS),
                            (mct_v64)((mct_vu64)odd >> MCT_PROBABILITY_BITS));
}

/* The sums of a row, in the place of its exponentials. */
static inline void mct_softmax_sums(mct_softmax_exps *exps, const int8_t *dy, int32_t classes) {
    mct_v32 totals = {0}, products = {0};
    for (int32_t c = 0; c < classes; c += MCT_LANES) {
        const mct_v32 q = mct_v_probability(exps, c, MCT_PROBABILITY_BITS);
        mct_v_store(exps->row + c, q);
        totals += q;
        products += mct_v_load_s8(dy + c, classes - c) * q;
    }
    const int32_t total = mct_v_total(totals), weighted = mct_v_total(products);
    for (int32_t c = 0; c < classes; c += MCT_LANES) {
        const mct_v32 difference = total * mct_v_load_s8(dy + c, classes - c) - weighted;
        mct_v_store(exps->row + c, mct_v_weighted(difference, mct_v_load(exps->row + c)));
    }
}

typedef struct {
    const mct_softmax_grad_input_s8_params *p;
    const mct_gradients *result;
    const int8_t *dy, *x;
} mct_softmax_back;

static void mct_softmax_back_part(const void *job_, int32_t part, int32_t parts) {
    const mct_softmax_back *job = job_;
    const mct_softmax_grad_input_s8_params *p = job->p;
    const int32_t end = mct_part_begin(p->rows, part + 1, parts, 1);
    mct_softmax_exps exps;
    mct_exps_begin(&exps, p->mult_q31, p->left_shift, p->diff_min);
    for (int32_t row = mct_part_begin(p->rows, part, parts, 1); row < end; row++) {
        const int32_t first = row * p->classes;
        mct_exps_row(&exps, job->x + first, p->classes);
        mct_softmax_sums(&exps, job->dy + first, p->classes);
        mct_take_run(job->result, row, 0, p->classes, exps.row);
    }
}

void mct_softmax_grad_input_s8(const mct_softmax_grad_input_s8_params *p, const mct_step *step,
                               const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                               const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                               int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const mct_gradients result = {&writer, p->classes, dx};
    const mct_softmax_back job = {p, &result, dy, x};
    const int64_t elements = (int64_t)p->rows * p->classes;
    mct_threads_run(mct_softmax_back_part, &job, mct_threads_for(elements * MCT_BACK_PRODUCTS));
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
