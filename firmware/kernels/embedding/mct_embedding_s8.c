/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mct_embedding.h"

void mct_embedding_s8(const mct_embedding_s8_params *p, const int16_t *ids, const int8_t *table,
                      int8_t *y) {
    for (int32_t i = 0; i < p->count; i++) {
        int32_t id = ids[i];
        if (id < 0) {
            id = 0;
        } else if (id >= p->rows) {
            id = p->rows - 1;
        }
        memcpy(y + i * p->width, table + id * p->width, (size_t)p->width);
    }
}
