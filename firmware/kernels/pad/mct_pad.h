/* SPDX-License-Identifier: Apache-2.0 */
/* y = x with a border of `value`; dx = the part of dy inside the border.
 *
 * x: [x.h][x.w][x.c]   y: [y.h][y.w][y.c], of which pad_channels channels are before x's.
 * Nothing may overlap. */
#ifndef MCT_PAD_H
#define MCT_PAD_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    mct_shape x, y;
    int32_t pad_top, pad_left, pad_channels;
    int32_t value;
} mct_pad_s8_params;

void mct_pad_s8(const mct_pad_s8_params *p, const int8_t *x, int8_t *y);

/* mask: a bit per element of dx, or NULL. scratch: dx.c sums (int32 for s8, int64 for s16). */
typedef struct {
    mct_shape dx, dy;
    int32_t pad_top, pad_left, pad_channels;
    mct_gradient_stage stage;
} mct_pad_grad_input_s8_params;
typedef mct_pad_grad_input_s8_params mct_pad_grad_input_s16_params;

void mct_pad_grad_input_s8(const mct_pad_grad_input_s8_params *p, const mct_step *step,
                           const int8_t *dy, const mct_exponent *dy_exponent, const uint8_t *mask,
                           mct_exponent *exponent, int8_t *dx, int32_t *scratch);
void mct_pad_grad_input_s16(const mct_pad_grad_input_s16_params *p, const mct_step *step,
                            const int16_t *dy, const mct_exponent *dy_exponent, const uint8_t *mask,
                            mct_exponent *exponent, int16_t *dx, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
