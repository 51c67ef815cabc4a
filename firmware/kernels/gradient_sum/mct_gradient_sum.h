/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients scaled, added and masked elementwise, in one stochastic rounding.
 *
 * rescale: g[i] = mask * a[i] * factor_a[c]   add: g[i] = mask * (a[i] * factor_a[c] + b[i] *
 * factor_b[c]); a factor is mult_q31 * 2^(shift - 31) * 2^(exponent of the term - exponent of g).
 *
 * a, b, g: [positions][channels_out]; g may be a or b. mask: a bit per element, or NULL. */
#ifndef MCT_GRADIENT_SUM_H
#define MCT_GRADIENT_SUM_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t positions, channels_out;
    mct_gradient_stage a;
} mct_gradient_rescale_s8_params;
typedef mct_gradient_rescale_s8_params mct_gradient_rescale_s16_params;

void mct_gradient_rescale_s8(const mct_gradient_rescale_s8_params *p, const mct_step *step,
                             const int8_t *a, const mct_exponent *a_exponent, const uint8_t *mask,
                             mct_exponent *exponent, int8_t *g);
void mct_gradient_rescale_s16(const mct_gradient_rescale_s16_params *p, const mct_step *step,
                              const int16_t *a, const mct_exponent *a_exponent, const uint8_t *mask,
                              mct_exponent *exponent, int16_t *g);

typedef struct {
    int32_t positions, channels_out;
    mct_gradient_stage a, b;
} mct_gradient_add_s8_params;
typedef mct_gradient_add_s8_params mct_gradient_add_s16_params;

void mct_gradient_add_s8(const mct_gradient_add_s8_params *p, const mct_step *step, const int8_t *a,
                         const mct_exponent *a_exponent, const int8_t *b,
                         const mct_exponent *b_exponent, const uint8_t *mask,
                         mct_exponent *exponent, int8_t *g);
void mct_gradient_add_s16(const mct_gradient_add_s16_params *p, const mct_step *step,
                          const int16_t *a, const mct_exponent *a_exponent, const int16_t *b,
                          const mct_exponent *b_exponent, const uint8_t *mask,
                          mct_exponent *exponent, int16_t *g);

#ifdef __cplusplus
}
#endif

#endif
