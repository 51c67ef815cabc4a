/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_lookup.h"
#include "mct_simd.h"
#include "mct_threads.h"

typedef struct {
    const mct_lookup_s8_params *p;
    const int8_t *x;
    int8_t *y;
} mct_lookup_part_job;

static void mct_lookup_part(const void *job_, int32_t part, int32_t parts) {
    const mct_lookup_part_job *job = job_;
    const int8_t *table = job->p->table, *x = job->x;
    int8_t *y = job->y;
    const int32_t end = mct_part_begin(job->p->elements, part + 1, parts, 64);
    int32_t i = mct_part_begin(job->p->elements, part, parts, 64);
#if MCT_HAS_LOOKUP
    const mct_v_table held = mct_v_table_of(table);
    for (; i + 4 * MCT_LANES <= end; i += 4 * MCT_LANES) {
        mct_v_store(y + i, mct_v_lookup(&held, mct_v_load(x + i)));
    }
#endif
    for (; i < end; i++) {
        y[i] = table[x[i] + 128];
    }
}

void mct_lookup_s8(const mct_lookup_s8_params *p, const int8_t *x, int8_t *y) {
    const mct_lookup_part_job job = {p, x, y};
    const int64_t products = (int64_t)p->elements * MCT_PRODUCTS_OF_AN_ELEMENT;
    mct_threads_run(mct_lookup_part, &job, mct_threads_for(products));
}
