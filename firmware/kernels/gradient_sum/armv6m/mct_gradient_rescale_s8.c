/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_armv6m_gradient.h"
#include "mct_gradient_sum.h"

#define MCT_MOST_SUMS 32

/* The elements first, first + step … of channel c. */
static void mct_rescale(mct_gradient_writer *writer, const int8_t *a, int32_t c, int32_t first,
                        int32_t step, int32_t count, int8_t *g) {
    const mct_armv6m_factor factor = mct_armv6m_factor_of(writer, c);
    int32_t sums[MCT_MOST_SUMS];
    while (count > 0) {
        const int32_t now = mct_min(count, MCT_MOST_SUMS);
        for (int32_t n = 0; n < now; n++) {
            sums[n] = a[first + n * step];
        }
        mct_armv6m_round_sums(writer, sums, now, &factor, c, 0, first, step, g);
        first += now * step;
        count -= now;
    }
}

void mct_gradient_rescale_s8(const mct_gradient_rescale_s8_params *p, const mct_step *step,
                             const int8_t *a, const mct_exponent *a_exponent, const uint8_t *mask,
                             mct_exponent *exponent, int8_t *g) {
    const int32_t channels = p->channels_out;
    mct_gradient_writer writer =
        mct_gradient_begin(&p->a, step, a_exponent, MCT_DROPPED_BITS_S8, mask, exponent);
    if (!p->a.per_channel) {
        mct_rescale(&writer, a, 0, 0, 1, p->positions * channels, g);
    }
    for (int32_t c = 0; p->a.per_channel && c < channels; c++) {
        mct_rescale(&writer, a, c, c, channels, p->positions, g);
    }
    mct_gradient_end(&writer, 7);
}
