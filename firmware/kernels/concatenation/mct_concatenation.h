/* SPDX-License-Identifier: Apache-2.0 */
/* y = up to eight tensors one after another along an axis; and the part of each in a gradient.
 *
 * a: [outer][a_elements], b: [outer][b_elements] …; absent ones are NULL and have 0 elements.
 * y: [outer][a_elements + b_elements + …]; overlaps none of them. */
#ifndef MCT_CONCATENATION_H
#define MCT_CONCATENATION_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t outer;
    int32_t a_elements, b_elements, c_elements, d_elements;
    int32_t e_elements, f_elements, g_elements, h_elements;
} mct_concatenation_s8_params;

void mct_concatenation_s8(const mct_concatenation_s8_params *p, const int8_t *a, const int8_t *b,
                          const int8_t *c, const int8_t *d, const int8_t *e, const int8_t *f,
                          const int8_t *g, const int8_t *h, int8_t *y);

/* dx = stage(dy[outer][first …]).
 *
 * dy: [outer][dy_elements]   dx: [outer][dx_elements], of which `channels` (a divisor) are written
 * at a time   mask: a bit per element of dx, or NULL   scratch: `channels` int32 (s16: int64) */
typedef struct {
    int32_t outer;
    int32_t dx_elements, dy_elements, first;
    int32_t channels;
    mct_gradient_stage stage;
} mct_concatenation_grad_input_s8_params;
typedef mct_concatenation_grad_input_s8_params mct_concatenation_grad_input_s16_params;

void mct_concatenation_grad_input_s8(const mct_concatenation_grad_input_s8_params *p,
                                     const mct_step *step, const int8_t *dy,
                                     const mct_exponent *dy_exponent, const uint8_t *mask,
                                     mct_exponent *exponent, int8_t *dx, int32_t *scratch);
void mct_concatenation_grad_input_s16(const mct_concatenation_grad_input_s16_params *p,
                                      const mct_step *step, const int16_t *dy,
                                      const mct_exponent *dy_exponent, const uint8_t *mask,
                                      mct_exponent *exponent, int16_t *dx, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
