/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_layer_norm.h"
#include "mct_layer_norm_lanes.h"
#include "mct_requantize_tile.h"
#include "mct_threads.h"

#define MCT_NORM_PRODUCTS 32 /* that take as long as an element */

#define MCT_HALF_STEP (INT64_C(1) << (MCT_NORMALIZED_BITS + MCT_PARAMETER_BITS - 1))

typedef struct {
    const mct_layer_norm_s8_params *p;
    const int8_t *x;
    const int32_t *gamma, *beta;
    int8_t *y;
    uint8_t *mask;
} mct_norm_job;

/* `lanes` numbers of a row, from x and channel c on. */
static inline mct_v32 mct_norm_lanes(const mct_norm_job *job, const mct_layer_norm_row *row,
                                     const int8_t *x, int32_t c, int32_t lanes) {
    const mct_v32 normalized = mct_v_normalized(row, mct_v_load_s8(x + c, lanes));
    const mct_v32 gamma = mct_v_load_part(job->gamma + c, lanes);
    const mct_v32 beta = mct_v_load_part(job->beta + c, lanes);
    const mct_v_wide scaled = mct_v_products(normalized, gamma);
    const mct_v_wide shift = mct_v_products(beta, mct_v_all(1 << MCT_NORMALIZED_BITS));
    const mct_v_wide sum = {scaled.even + shift.even + MCT_HALF_STEP,
                            scaled.odd + shift.odd + MCT_HALF_STEP};
    return mct_v_narrow(mct_v_shifted(sum, MCT_NORMALIZED_BITS + MCT_PARAMETER_BITS)) +
           job->p->y_zero_point;
}

/* Of rows that share no byte of the mask with another part's. */
static void mct_norm_part(const void *job_, int32_t part, int32_t parts) {
    const mct_norm_job *job = job_;
    const mct_layer_norm_s8_params *p = job->p;
    const int32_t end = mct_part_begin(p->rows, part + 1, parts, 8);
    for (int32_t r = mct_part_begin(p->rows, part, parts, 8); r < end; r++) {
        const int32_t first = r * p->channels;
        const int8_t *x = job->x + first;
        const mct_layer_norm_row row =
            mct_layer_norm_begin(x, p->channels, p->around_mean ? NULL : &p->origin,
                                 (uint64_t)p->epsilon << p->epsilon_shift, 0);
        for (int32_t c = 0; c < p->channels; c += MCT_LANES) {
            const int32_t lanes = mct_min(p->channels - c, MCT_LANES);
            const mct_v32 value = mct_norm_lanes(job, &row, x, c, lanes);
            mct_v_clamp_store(value, p->low, p->high, first + c, lanes, job->y, job->mask);
        }
    }
}

void mct_layer_norm_s8(const mct_layer_norm_s8_params *p, const int8_t *x, const int32_t *gamma,
                       const int32_t *beta, int8_t *y, uint8_t *mask) {
    const mct_norm_job job = {p, x, gamma, beta, y, mask};
    const int64_t elements = (int64_t)p->rows * p->channels;
    mct_mask_clear(mask, p->rows * p->channels);
    mct_threads_run(mct_norm_part, &job, mct_threads_for(elements * MCT_NORM_PRODUCTS));
}
