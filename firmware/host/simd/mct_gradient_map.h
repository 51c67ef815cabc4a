/* Gradients converted element by element: mct_gradient_rows without sums. */
#ifndef MCT_GRADIENT_MAP_H
#define MCT_GRADIENT_MAP_H

#include "mct_gradient_rows.h"

#define MCT_MAP_ROWS 32

/* g = what the writer makes of a; both [positions][channels]. g may be a. */
static inline void mct_gradient_map(mct_gradient_writer *writer, int32_t positions,
                                    int32_t channels, const int8_t *a, int8_t *g) {
    int32_t sums[MCT_MAP_ROWS * MCT_LANES];
    for (int32_t c = 0; c < channels; c += MCT_LANES) {
        const int32_t lanes = mct_min(channels - c, MCT_LANES);
        for (int32_t row = 0; row < positions; row += MCT_MAP_ROWS) {
            const int32_t rows = mct_min(positions - row, MCT_MAP_ROWS);
            const int32_t first = row * channels + c;
            for (int32_t r = 0; r < rows; r++) {
                mct_v_store(sums + r * MCT_LANES, mct_v_load_s8(a + first + r * channels, lanes));
            }
            mct_gradient_rows(writer, rows, c, lanes, sums, MCT_LANES, first, channels, g);
        }
    }
}

#endif
