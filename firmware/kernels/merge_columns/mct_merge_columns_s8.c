/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_merge_columns.h"

#include <string.h>

void mct_merge_columns_s8(const mct_merge_columns_s8_params *p, const int8_t *frozen,
                          const int8_t *trained, int8_t *w) {
    const size_t count = (size_t)p->trained_columns;
    memcpy(w, frozen, (size_t)(p->rows * p->columns));
    for (int32_t row = 0; row < p->rows; row++) {
        int8_t *to = w + row * p->columns;
        if (p->channels == NULL) {
            memcpy(to, trained, count);
        } else {
            for (size_t j = 0; j < count; j++) {
                to[p->channels[j]] = trained[j];
            }
        }
        trained += count;
    }
}
