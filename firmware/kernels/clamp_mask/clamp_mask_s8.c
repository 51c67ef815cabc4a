#include "clamp_mask.h"

void mct_clamp_mask_s8(const mct_clamp_mask_s8_params *p, const int8_t *y, uint8_t *mask) {
    for (int32_t first = 0; first < p->elements; first += 8) {
        const int32_t count = p->elements - first < 8 ? p->elements - first : 8;
        uint32_t bits = 0;
        for (int32_t i = 0; i < count; i++) {
            const uint32_t inside = y[first + i] > p->low && y[first + i] < p->high;
            bits |= inside << i;
        }
        mask[first >> 3] = (uint8_t)bits;
    }
}
