/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_gradient.h"
#include "mct_dsp_panel.h"
#include "mct_gradient_sum.h"

/* Positions at a time. */
#define MCT_RESCALED 16

void mct_gradient_rescale_s8(const mct_gradient_rescale_s8_params *p, const mct_step *step,
                             const int8_t *a, const mct_exponent *a_exponent, const uint8_t *mask,
                             mct_exponent *exponent, int8_t *g) {
    const int32_t channels = p->channels_out;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->a, step, a_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    mct_dsp_writer to = mct_dsp_writer_of(&writer, g);
    for (int32_t c = 0; c < channels; c += 4) {
        const int32_t columns = mct_min(channels - c, 4);
        mct_factor factors[4];
        mct_sums4 sums[MCT_RESCALED];
        mct_factors_of(&writer, c, columns, factors);
        for (int32_t position = 0; position < p->positions; position += MCT_RESCALED) {
            const int32_t first = position * channels + c;
            const int32_t count = mct_min(p->positions - position, MCT_RESCALED);
            for (int32_t i = 0; i < count; i++) {
                const uint32_t word = mct_row_word(a + first + i * channels, columns);
                sums[i] = (mct_sums4){{(int8_t)word, (int8_t)(word >> 8), (int8_t)(word >> 16),
                                       (int8_t)(word >> 24)}};
            }
            mct_dsp_write_columns(&to, factors, sums, c, columns, first, channels, count);
        }
    }
    mct_dsp_writer_end(&to, 7);
}
