/* SPDX-License-Identifier: Apache-2.0 */
/* y = table[x + 128]: any function of one int8; and its gradient.
 *
 * x, y: [elements]; y may be x. table: 256 values. */
#ifndef MCT_LOOKUP_H
#define MCT_LOOKUP_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t elements;
    const int8_t *table;
} mct_lookup_s8_params;

void mct_lookup_s8(const mct_lookup_s8_params *p, const int8_t *x, int8_t *y);

/* dx = stage(dy * slopes[x + 128]).
 *
 * dy, x, dx: [positions][channels]   slopes: 256 values   mask: a bit per element of dx, or NULL
 * dx may be dy.
 * scratch: `channels` products (int32 for s8, int64 for s16); |dy * slope| < 2^30 */
typedef struct {
    int32_t positions, channels;
    const int16_t *slopes;
    mct_gradient_stage stage;
} mct_lookup_grad_input_s8_params;
typedef mct_lookup_grad_input_s8_params mct_lookup_grad_input_s16_params;

void mct_lookup_grad_input_s8(const mct_lookup_grad_input_s8_params *p, const mct_step *step,
                              const int8_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                              const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                              int32_t *scratch);
void mct_lookup_grad_input_s16(const mct_lookup_grad_input_s16_params *p, const mct_step *step,
                               const int16_t *dy, const mct_exponent *dy_exponent, const int8_t *x,
                               const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                               int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
