/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_lookup.h"

void mct_lookup_s8(const mct_lookup_s8_params *p, const int8_t *x, int8_t *y) {
    for (int32_t i = 0; i < p->elements; i++) {
        y[i] = p->table[x[i] + 128];
    }
}
