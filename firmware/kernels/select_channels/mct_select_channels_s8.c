/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_select_channels.h"

#include <string.h>

void mct_select_channels_s8(const mct_select_channels_s8_params *p, const int8_t *x, int8_t *y) {
    const size_t count = (size_t)p->y_channels;
    for (int32_t position = 0; position < p->positions; position++) {
        if (p->channels == NULL) {
            memmove(y, x, count);
        } else {
            for (size_t j = 0; j < count; j++) {
                y[j] = x[p->channels[j]];
            }
        }
        x += p->x_channels;
        y += count;
    }
}
