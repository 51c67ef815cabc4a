#include "mct_pad.h"

#include <string.h>

void mct_pad_s8(const mct_pad_s8_params *p, const int8_t *x, int8_t *y) {
    memset(y, p->value, (size_t)(p->y.h * p->y.w * p->y.c));
    for (int32_t row = 0; row < p->x.h; row++) {
        int8_t *to = y + ((row + p->pad_top) * p->y.w + p->pad_left) * p->y.c;
        memcpy(to, x + row * p->x.w * p->x.c, (size_t)(p->x.w * p->x.c));
    }
}
