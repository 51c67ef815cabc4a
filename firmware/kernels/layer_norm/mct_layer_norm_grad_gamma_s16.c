/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_layer_norm.h"

#define MCT_NORM_PARAMS mct_layer_norm_grad_gamma_s16_params
#include "mct_layer_norm_gamma_body.h"

void mct_layer_norm_grad_gamma_s16(const mct_layer_norm_grad_gamma_s16_params *p,
                                   const mct_step *step, const int16_t *dy, const int8_t *x,
                                   int32_t *dgamma, int64_t *scratch) {
    mct_gamma_sums(p, dy, x, scratch);
    MCT_ACCUMULATE(p, step, scratch, 0, p->channels, dgamma);
}
