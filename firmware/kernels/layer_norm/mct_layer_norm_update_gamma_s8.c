/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_layer_norm.h"

#define MCT_NORM_PARAMS mct_layer_norm_update_gamma_s8_params
#include "mct_layer_norm_gamma_body.h"

void mct_layer_norm_update_gamma_s8(const mct_layer_norm_update_gamma_s8_params *p,
                                    const mct_step *step, const int8_t *dy,
                                    const mct_exponent *dy_exponent, const int8_t *x,
                                    int32_t *scratch) {
    const mct_updater updater =
        mct_update_begin(&p->parameter, step, dy_exponent, MCT_DROPPED_BITS);
    mct_gamma_sums(p, dy, x, scratch);
    MCT_UPDATE_BIASES(&updater, scratch, 0, p->channels);
}
