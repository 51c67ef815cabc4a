/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_pooling.h"
#include "mct_requantize_tile.h"
#include "mct_threads.h"
#include "mct_window.h"

typedef struct {
    const mct_max_pool_2d_s8_params *p;
    const int8_t *x;
    int8_t *y;
    uint8_t *mask;
} mct_max_job;

/* Of some channels of the window. */
static mct_v32 mct_largest(const mct_max_pool_2d_s8_params *p, const mct_window_part *part,
                           const int8_t *x, int32_t lanes) {
    const int32_t step = p->window.dilation_w * p->x.c;
    const int32_t left = part->first_x + part->columns.begin * p->window.dilation_w;
    mct_v32 largest = mct_v_all(-128);
    for (int32_t tap = part->rows.begin; tap < part->rows.end; tap++) {
        const int32_t row = part->first_y + tap * p->window.dilation_h;
        const int8_t *at = x + (row * p->x.w + left) * p->x.c;
        for (int32_t i = part->columns.begin; i < part->columns.end; i++, at += step) {
            largest = mct_v_max(largest, mct_v_load_s8(at, lanes));
        }
    }
    return largest;
}

static void mct_max_part(const void *job_, int32_t part, int32_t parts) {
    const mct_max_job *job = job_;
    const mct_max_pool_2d_s8_params *p = job->p;
    const int32_t positions = p->y.h * p->y.w, channels = p->y.c;
    const int32_t end = mct_part_begin(positions, part + 1, parts, 8);
    for (int32_t n = mct_part_begin(positions, part, parts, 8); n < end; n++) {
        const mct_window_part inside = mct_window_inside(&p->window, &p->x, n / p->y.w, n % p->y.w);
        for (int32_t c = 0; c < channels; c += MCT_LANES) {
            const int32_t lanes = mct_min(channels - c, MCT_LANES);
            const mct_v32 largest = mct_largest(p, &inside, job->x + c, lanes);
            mct_v_clamp_store(largest, p->low, p->high, n * channels + c, lanes, job->y, job->mask);
        }
    }
}

void mct_max_pool_2d_s8(const mct_max_pool_2d_s8_params *p, const int8_t *x, int8_t *y,
                        uint8_t *mask) {
    const mct_max_job job = {p, x, y, mask};
    const int64_t taps = p->window.kernel_h * p->window.kernel_w;
    mct_mask_clear(mask, p->y.h * p->y.w * p->y.c);
    mct_threads_run(mct_max_part, &job, mct_threads_for(taps * p->y.h * p->y.w * p->y.c * 4));
}
