/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_rows.h"

/* Two rows whose last words may lie behind all weights. */
static __attribute__((noinline)) mct_sums2 mct_rows_last(const mct_dsp_rows *rows,
                                                         const int8_t *first, const int8_t *second,
                                                         mct_sums2 sums) {
    const int32_t whole = rows->depth / 4, rest = rows->depth % 4; /* at least 1 */
    const uint32_t one = mct_load_part(first + 4 * whole, rest);
    const uint32_t two = mct_load_part(second + 4 * whole, rest);
    if (whole > 0) {
        sums = mct_dot2(rows->terms, first, second, whole, sums);
    }
    return mct_dot2(rows->terms + 2 * whole, (const int8_t *)&one, (const int8_t *)&two, 1, sums);
}

void mct_dsp_rows_add(const mct_dsp_rows *rows, int32_t *sums) {
    const mct_dsp_rows r = *rows;
    const int32_t quads = (r.depth + 3) / 4;
    const int8_t *w = r.w;
    for (int32_t left = r.count; left > 0; left -= 2, w += 2 * r.row, sums += 2) {
        const int32_t other = left > 1; /* or the same row again, for nothing */
        const int8_t *second = w + other * r.row;
        const mct_sums2 before = {sums[0], sums[other]};
        const mct_sums2 made = r.end - second >= 4 * quads
                                   ? mct_dot2(r.terms, w, second, quads, before)
                                   : mct_rows_last(rows, w, second, before);
        sums[other] = made.second;
        sums[0] = made.first;
    }
}
