#include "select_channels.h"

void mct_select_channels_s8(const mct_select_channels_s8_params *p, const int8_t *x, int8_t *y) {
    for (int32_t position = 0; position < p->positions; position++) {
        for (int32_t j = 0; j < p->y_channels; j++) {
            *y++ = x[position * p->x_channels + p->channels[j]];
        }
    }
}
