/* SPDX-License-Identifier: Apache-2.0 */
/* Panels of mct_dot4 from rows of int8: a lane is one of four neighbouring columns. */
#ifndef MCT_DSP_PANEL_H
#define MCT_DSP_PANEL_H

#include "mct_dsp_tiles.h"

/* Four rows of four columns, plus `plus` in both halves, into eight words of a panel. */
static inline void mct_panel_quad(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t plus,
                                  uint32_t *to) {
    const uint32_t a_even = mct_add_even_bytes(plus, a);
    const uint32_t a_odd = mct_add_odd_bytes(plus, a);
    const uint32_t c_even = mct_add_even_bytes(plus, c);
    const uint32_t c_odd = mct_add_odd_bytes(plus, c);
    to[0] = mct_lows(a_even, c_even);
    to[1] = mct_lows(a_odd, c_odd);
    to[2] = mct_highs(a_even, c_even);
    to[3] = mct_highs(a_odd, c_odd);
    const uint32_t b_even = mct_add_even_bytes(plus, b);
    const uint32_t b_odd = mct_add_odd_bytes(plus, b);
    const uint32_t d_even = mct_add_even_bytes(plus, d);
    const uint32_t d_odd = mct_add_odd_bytes(plus, d);
    to[4] = mct_lows(b_even, d_even);
    to[5] = mct_lows(b_odd, d_odd);
    to[6] = mct_highs(b_even, d_even);
    to[7] = mct_highs(b_odd, d_odd);
}

/* The first `columns`, 1 to 4, of a row. */
static inline uint32_t mct_row_word(const int8_t *row, int32_t columns) {
    return columns == 4 ? mct_load32(row) : mct_load_part(row, columns);
}

/* Rows 0 … depth - 1 of a matrix; up to the next multiple of 4, zeros. */
static inline void mct_panel_rows(const int8_t *rows, int32_t stride, int32_t columns,
                                  int32_t depth, uint32_t *to) {
    int32_t k = 0;
    if (columns == 4 && depth >= 4) {
        const mct_tile_rows tile = {rows, stride, 0, to, depth / 4};
        mct_tile_rows_run(&tile);
        k = depth & ~3;
        rows += k * stride;
        to += 2 * k;
    }
    for (; k < depth; k += 4) {
        uint32_t words[4] = {0};
        for (int32_t i = 0; i < 4 && k + i < depth; i++) {
            words[i] = mct_row_word(rows, columns);
            rows += stride;
        }
        mct_panel_quad(words[0], words[1], words[2], words[3], 0, to);
        to += 8;
    }
}

/* mct_dot4 for a depth that is no multiple of 4: reads nothing from `end` on. */
static inline mct_sums4 mct_dot4_until(const uint32_t *panel, const int8_t *stream, int32_t depth,
                                       const int8_t *end, mct_sums4 sums) {
    const int32_t quads = (depth + 3) / 4;
    if (end - stream >= 4 * quads) {
        return mct_dot4(panel, stream, quads, sums);
    }
    const uint32_t last = mct_load_part(stream + 4 * (quads - 1), depth - 4 * (quads - 1));
    if (quads > 1) {
        sums = mct_dot4(panel, stream, quads - 1, sums);
    }
    return mct_dot4(panel + 8 * (quads - 1), (const int8_t *)&last, 1, sums);
}

#endif
