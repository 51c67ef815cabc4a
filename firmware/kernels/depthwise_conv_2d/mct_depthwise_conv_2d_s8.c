/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_any.h"
#include "mct_depthwise_conv_2d.h"

void mct_depthwise_conv_2d_s8(const mct_depthwise_conv_2d_s8_params *p, const int8_t *x,
                              const int8_t *w, const int32_t *b, int8_t *y, uint8_t *mask,
                              int8_t *scratch) {
    mct_depthwise_any(p, x, w, b, y, mask, scratch);
}
