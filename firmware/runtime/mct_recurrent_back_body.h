/* SPDX-License-Identifier: Apache-2.0 */
/* Back from a recurrent layer's step to the one before; the types are those of a gradient kernel. */
#include "mct_recurrent.h"

/* The derivatives by y of a step: dh += dy */
static void mct_add_gradient(const MCT_GRAD *dy, int32_t units, int32_t *dh) {
    for (int32_t k = 0; k < units; k++) {
        dh[k] += dy[k] * (1 << MCT_BACK_BITS);
    }
}

/* Each gate's derivatives by its multiplier. */
static void mct_scale_back(MCT_ACC *d, int32_t gates, int32_t units, const int32_t *mult_q31,
                           const int8_t *shift) {
    for (int32_t g = 0; g < gates; g++) {
        for (int32_t k = 0; k < units; k++) {
            MCT_ACC *one = d + g * units + k;
            *one = mct_scale_gate((int32_t)*one, mult_q31[g], shift[g]);
        }
    }
}

/* dh[k] = sum of d[r] * u[r][k] / 2^bits */
static void mct_through_state(const MCT_ACC *d, const int8_t *u, int32_t rows, int32_t units,
                              int32_t bits, int32_t *dh) {
    for (int32_t k = 0; k < units; k++) {
        int64_t sum = (1 << bits) >> 1;
        for (int32_t r = 0; r < rows; r++) {
            sum += (int64_t)d[r] * u[r * units + k];
        }
        dh[k] = mct_back_limited(sum >> bits);
    }
}
