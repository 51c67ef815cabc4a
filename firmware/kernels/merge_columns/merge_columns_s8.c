#include "merge_columns.h"

#include <string.h>

void mct_merge_columns_s8(const mct_merge_columns_s8_params *p, const int8_t *frozen,
                          const int8_t *trained, int8_t *w) {
    memcpy(w, frozen, (size_t)(p->rows * p->columns));
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t j = 0; j < p->trained_columns; j++) {
            w[row * p->columns + p->channels[j]] = *trained++;
        }
    }
}
