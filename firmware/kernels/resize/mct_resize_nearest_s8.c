/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_resize.h"

#include <string.h>

void mct_resize_nearest_s8(const mct_resize_nearest_s8_params *p, const int8_t *x, int8_t *y) {
    const int32_t channels = p->x.c;
    for (int32_t r = 0; r < p->y.h; r++) {
        const int8_t *row = x + (p->rows[r] >> 10) * p->x.w * channels;
        for (int32_t s = 0; s < p->y.w; s++, y += channels) {
            memcpy(y, row + (p->columns[s] >> 10) * channels, (size_t)channels);
        }
    }
}
