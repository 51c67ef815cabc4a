/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_gradient_sum.h"
#include "mct_gradient_tile.h"

void mct_gradient_add_s8(const mct_gradient_add_s8_params *p, const mct_step *step, const int8_t *a,
                         const mct_exponent *a_exponent, const int8_t *b,
                         const mct_exponent *b_exponent, const uint8_t *mask,
                         mct_exponent *exponent, int8_t *g) {
    mct_gradient_writer writer =
        mct_gradient_begin(&p->a, step, a_exponent, MCT_DROPPED_BITS, mask, exponent);
    mct_gradient_add(&writer, &p->b, b, b_exponent);
    const mct_gradients result = {&writer, p->channels_out, g};
    mct_gradient_map(&result, p->positions, mct_widened, a);
    mct_gradient_end(&writer, MCT_GRAD_BITS);
}
