/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_pad.h"

#include <string.h>

void mct_pad_s8(const mct_pad_s8_params *p, const int8_t *x, int8_t *y) {
    memset(y, p->value, (size_t)(p->y.h * p->y.w * p->y.c));
    /* Pixels that lie side by side in y, too. */
    const int32_t run = p->x.c == p->y.c ? p->x.w : 1;
    for (int32_t row = 0; row < p->x.h; row++) {
        int8_t *to = y + ((row + p->pad_top) * p->y.w + p->pad_left) * p->y.c + p->pad_channels;
        for (int32_t column = 0; column < p->x.w; column += run) {
            memcpy(to, x, (size_t)(run * p->x.c));
            x += run * p->x.c;
            to += p->y.c;
        }
    }
}
