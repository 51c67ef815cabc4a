/* SPDX-License-Identifier: Apache-2.0 */
/* Mean squared error between the last layer's sums and the network's own input, and its gradient.
 *
 * error[i] = sums[i] * y_scale[c] - (x[i] - x_zero_point), in steps of the input, as Q16 within
 * +-2^30; loss = mean(error^2) as Q16, at most INT32_MAX; dy[i] = error[i] * scale[c] / largest
 * scale, times 2^-exponent, stochastically rounded and saturated. c: the channel of element i.
 *
 * y_mult_q31, y_shift: the scale of the sums / that of the input; error_mult_q31, error_shift:
 * scale[c] / largest scale; one entry if per_channel is 0. exact: 1 chooses the exponent for this
 * sample alone, 0 by what was needed lately, so that gradients can be added.
 * sums, x, dy: [positions][channels]   *prediction becomes 0
 * The squares are below 2^44, so 64 bits cannot overflow for 2^18 elements and less. */
#ifndef MCT_MEAN_SQUARED_ERROR_H
#define MCT_MEAN_SQUARED_ERROR_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t positions;
    int32_t channels;
    int32_t x_zero_point;
    const int32_t *y_mult_q31;
    const int8_t *y_shift;
    const int32_t *error_mult_q31;
    const int8_t *error_shift;
    int32_t per_channel;
    int32_t exact;
    uint32_t salt;
} mct_mean_squared_error_s8_params;
typedef mct_mean_squared_error_s8_params mct_mean_squared_error_s16_params;

void mct_mean_squared_error_s8(const mct_mean_squared_error_s8_params *p, const mct_step *step,
                               const int32_t *sums, const int8_t *x, mct_exponent *exponent,
                               int8_t *dy, int32_t *loss_q16, int32_t *prediction);
void mct_mean_squared_error_s16(const mct_mean_squared_error_s16_params *p, const mct_step *step,
                                const int32_t *sums, const int8_t *x, mct_exponent *exponent,
                                int16_t *dy, int32_t *loss_q16, int32_t *prediction);

#ifdef __cplusplus
}
#endif

#endif
