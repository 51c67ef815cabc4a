/* SPDX-License-Identifier: Apache-2.0 */
/* y[position][j] = x[position][channels[j]]: what a partly trained layer saves of its input.
 *
 * x: [positions][x_channels]   y: [positions][y_channels]
 * channels: ascending; NULL means j itself
 * y may start where x starts (it is written behind what is still to be read). */
#ifndef MCT_SELECT_CHANNELS_H
#define MCT_SELECT_CHANNELS_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t positions, x_channels, y_channels;
    const int16_t *channels;
} mct_select_channels_s8_params;

void mct_select_channels_s8(const mct_select_channels_s8_params *p, const int8_t *x, int8_t *y);

#ifdef __cplusplus
}
#endif

#endif
