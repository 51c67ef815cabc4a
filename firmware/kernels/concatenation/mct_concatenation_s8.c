/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_concatenation.h"

void mct_concatenation_s8(const mct_concatenation_s8_params *p, const int8_t *a, const int8_t *b,
                          const int8_t *c, const int8_t *d, const int8_t *e, const int8_t *f,
                          const int8_t *g, const int8_t *h, int8_t *y) {
    const int8_t *const x[] = {a, b, c, d, e, f, g, h};
    const int32_t elements[] = {p->a_elements, p->b_elements, p->c_elements, p->d_elements,
                                p->e_elements, p->f_elements, p->g_elements, p->h_elements};
    for (int32_t i = 0; i < p->outer; i++) {
        for (int32_t k = 0; k < 8; k++) {
            for (int32_t j = 0; j < elements[k]; j++) {
                *y++ = x[k][i * elements[k] + j];
            }
        }
    }
}
