/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_tile.h"
#include "mct_layer_norm.h"
#include "mct_layer_norm_lanes.h"

#define MCT_NORM_CHANNELS 256
#define MCT_BACK_PRODUCTS 64 /* that take as long as an element */

/* A row, and what its channels share. */
typedef struct {
    const mct_layer_norm_grad_input_s8_params *p;
    const int8_t *dy, *x;
    const int32_t *gamma;
    mct_layer_norm_row row;
    int64_t sum;
    int32_t mean_along;
} mct_norm_back;

/* h and n of `lanes` channels from c on. */
static inline mct_v32 mct_norm_h(const mct_norm_back *of, int32_t c, int32_t lanes) {
    const mct_v32 gamma = mct_v_load_part(of->gamma + c, lanes) >> of->p->gamma_shift;
    return mct_v_load_s8(of->dy + c, lanes) *
           mct_v_max(mct_v_min(gamma, mct_v_all(32767)), mct_v_all(-32767));
}

static inline mct_v32 mct_norm_n(const mct_norm_back *of, int32_t c, int32_t lanes) {
    const mct_v32 normalized = mct_v_normalized(&of->row, mct_v_load_s8(of->x + c, lanes));
    return normalized >> (MCT_NORMALIZED_BITS - MCT_MEAN_BITS);
}

static inline int64_t mct_v_total64(mct_v_wide v) {
    const mct_v64 pairs = v.even + v.odd;
    int64_t total = 0;
    for (int32_t l = 0; l < MCT_LANES / 2; l++) {
        total += pairs[l];
    }
    return total;
}

/* Lanes beyond the channels have h = 0. */
static inline void mct_norm_means(mct_norm_back *of) {
    mct_v_wide sum = {{0}, {0}}, along = {{0}, {0}};
    for (int32_t c = 0; c < of->p->channels; c += MCT_LANES) {
        const int32_t lanes = mct_min(of->p->channels - c, MCT_LANES);
        const mct_v32 h = mct_norm_h(of, c, lanes);
        const mct_v_wide wide = mct_v_products(h, mct_v_all(1));
        const mct_v_wide product = mct_v_products(h, mct_norm_n(of, c, lanes));
        sum = (mct_v_wide){sum.even + wide.even, sum.odd + wide.odd};
        along = (mct_v_wide){along.even + product.even, along.odd + product.odd};
    }
    of->sum = of->p->around_mean ? mct_v_total64(sum) : 0;
    of->mean_along = (int32_t)(mct_v_total64(along) >> (MCT_MEAN_BITS + of->p->channel_bits));
}

static inline mct_v32 mct_norm_sums(const mct_norm_back *of, int32_t c, int32_t lanes) {
    const mct_layer_norm_grad_input_s8_params *p = of->p;
    const int64_t root = of->row.root >> (29 - MCT_BACK_ROOT_BITS);
    const mct_v_wide h = mct_v_products(mct_norm_h(of, c, lanes), mct_v_all(p->channels));
    const mct_v_wide centred =
        mct_v_shifted((mct_v_wide){h.even - of->sum, h.odd - of->sum}, p->channel_bits);
    const mct_v_wide along = mct_v_shifted(
        mct_v_products(mct_norm_n(of, c, lanes), mct_v_all(of->mean_along)), MCT_MEAN_BITS);
    const mct_v_wide scaled = {(centred.even - along.even) * root,
                               (centred.odd - along.odd) * root};
    return mct_v_narrow(mct_v_shifted(scaled, p->shift + of->row.half));
}

typedef struct {
    const mct_layer_norm_grad_input_s8_params *p;
    const mct_gradients *result;
    const int8_t *dy, *x;
    const int32_t *gamma;
} mct_norm_back_job;

static void mct_norm_back_row(const mct_norm_back_job *job, int32_t r) {
    const mct_layer_norm_grad_input_s8_params *p = job->p;
    const int32_t first = r * p->channels;
    mct_norm_back of = {.p = p, .dy = job->dy + first, .x = job->x + first, .gamma = job->gamma};
    of.row = mct_layer_norm_begin(of.x, p->channels, p->around_mean ? NULL : &p->origin,
                                  (uint64_t)p->epsilon << p->epsilon_shift, p->channels - 1);
    mct_norm_means(&of);
    for (int32_t c = 0; c < p->channels; c += MCT_NORM_CHANNELS) {
        int32_t sums[MCT_NORM_CHANNELS];
        const int32_t count = mct_min(p->channels - c, MCT_NORM_CHANNELS);
        for (int32_t i = 0; i < count; i += MCT_LANES) {
            mct_v_store(sums + i, mct_norm_sums(&of, c + i, mct_min(count - i, MCT_LANES)));
        }
        mct_take_run(job->result, r, c, count, sums);
    }
}

static void mct_norm_back_part(const void *job_, int32_t part, int32_t parts) {
    const mct_norm_back_job *job = job_;
    const int32_t end = mct_part_begin(job->p->rows, part + 1, parts, 1);
    for (int32_t r = mct_part_begin(job->p->rows, part, parts, 1); r < end; r++) {
        mct_norm_back_row(job, r);
    }
}

void mct_layer_norm_grad_input_s8(const mct_layer_norm_grad_input_s8_params *p,
                                  const mct_step *step, const int8_t *dy,
                                  const mct_exponent *dy_exponent, const int8_t *x,
                                  const int32_t *gamma, const uint8_t *mask, mct_exponent *exponent,
                                  int8_t *dx, int32_t *scratch) {
    (void)scratch;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->stage, step, dy_exponent, MCT_DROPPED_BITS, mask, exponent);
    const mct_gradients result = {&writer, p->channels, dx};
    const mct_norm_back_job job = {p, &result, dy, x, gamma};
    const int64_t elements = (int64_t)p->rows * p->channels;
    mct_threads_run(mct_norm_back_part, &job, mct_threads_for(elements * MCT_BACK_PRODUCTS));
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
