/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_any.h"

void mct_add_s8(const mct_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                uint8_t *mask) {
    mct_add_any(p, a, b, y, mask);
}
