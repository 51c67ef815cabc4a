#include "gradient_sum.h"
#include "mct_gradient_map.h"

void mct_gradient_rescale_s8(const mct_gradient_rescale_s8_params *p, const mct_step *step,
                             const int8_t *a, const mct_exponent *a_exponent, const uint8_t *mask,
                             mct_exponent *exponent, int8_t *g) {
    mct_gradient_writer writer = mct_gradient_begin(&p->a, step, a_exponent, 0, mask, exponent);
    mct_gradient_map(&writer, p->positions, p->channels_out, a, g);
    mct_gradient_end(&writer, 7);
}
