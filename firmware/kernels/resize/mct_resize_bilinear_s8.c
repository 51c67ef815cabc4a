/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_resize.h"

void mct_resize_bilinear_s8(const mct_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y) {
    const int32_t channels = p->x.c, row_size = p->x.w * channels;
    for (int32_t r = 0; r < p->y.h; r++) {
        /* A position at a pixel has no neighbour to read: the last one's would be outside. */
        const int32_t lower = p->rows[r] & 1023;
        const int8_t *above = x + (p->rows[r] >> 10) * row_size;
        const int8_t *below = lower > 0 ? above + row_size : above;
        for (int32_t s = 0; s < p->y.w; s++) {
            const int32_t right = p->columns[s] & 1023;
            const int32_t left_at = (p->columns[s] >> 10) * channels;
            const int32_t right_at = right > 0 ? left_at + channels : left_at;
            for (int32_t c = 0; c < channels; c++) {
                const int32_t top =
                    above[left_at + c] * (1024 - right) + above[right_at + c] * right;
                const int32_t bottom =
                    below[left_at + c] * (1024 - right) + below[right_at + c] * right;
                const int32_t sum = top * (1024 - lower) + bottom * lower;
                *y++ = (int8_t)((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
            }
        }
    }
}
