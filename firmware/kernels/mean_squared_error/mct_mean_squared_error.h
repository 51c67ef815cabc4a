/* SPDX-License-Identifier: Apache-2.0 */
/* How far the last layer's sums are from numbers x that they are to be, and the gradient of that.
 *
 * error[i] = sums[i] * y_scale[c] - (x[i] - x_zero_point) * x_step_q16 / 2^16, in steps, as Q16
 * within +-2^30; c: the channel of element i. With l = error_limit_q16 / 2^16,
 *   is_absolute 0: loss = mean(error^2 where |error| <= l, else l * (2 * |error| - l)),
 *                  slope[i] = error[i] within +-l
 *   is_absolute 1: loss = mean(|error|), slope[i] = l where error[i] > 0, -l where it is < 0, or 0
 * The loss is Q16, at most INT32_MAX; dy[i] = slope[i] * scale[c] / largest scale, times
 * 2^-exponent, stochastically rounded and saturated. So l = 2^14 is the mean squared error, and a
 * smaller one is Huber's loss, times 2.
 *
 * y_mult_q31, y_shift: the scale of the sums / that of a step; error_mult_q31, error_shift:
 * scale[c] / largest scale; one entry if per_channel is 0. exact: 1 chooses the exponent for this
 * sample alone, 0 by what was needed lately, so that gradients can be added.
 * sums, x, dy: [positions][channels]   *prediction becomes 0
 * 1 <= x_step_q16 <= 2^16, 1 <= error_limit_q16 <= 2^30. An element adds less than 2^46, so 64 bits
 * cannot overflow for 2^18 elements and less.
 *
 * mct_mean_squared_error_<gradient>: x is the network's own input, or int8 numbers of another
 * network. mct_target_error_<gradient>: x is a target of real numbers, finer than the output. */
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
    int32_t x_step_q16;
    int32_t error_limit_q16;
    int32_t is_absolute;
    const int32_t *y_mult_q31;
    const int8_t *y_shift;
    const int32_t *error_mult_q31;
    const int8_t *error_shift;
    int32_t per_channel;
    int32_t exact;
    uint32_t salt;
} mct_mean_squared_error_s8_params;
typedef mct_mean_squared_error_s8_params mct_mean_squared_error_s16_params;
typedef mct_mean_squared_error_s8_params mct_target_error_s8_params;
typedef mct_mean_squared_error_s8_params mct_target_error_s16_params;

void mct_mean_squared_error_s8(const mct_mean_squared_error_s8_params *p, const mct_step *step,
                               const int32_t *sums, const int8_t *x, mct_exponent *exponent,
                               int8_t *dy, int32_t *loss_q16, int32_t *prediction);
void mct_mean_squared_error_s16(const mct_mean_squared_error_s16_params *p, const mct_step *step,
                                const int32_t *sums, const int8_t *x, mct_exponent *exponent,
                                int16_t *dy, int32_t *loss_q16, int32_t *prediction);
void mct_target_error_s8(const mct_target_error_s8_params *p, const mct_step *step,
                         const int32_t *sums, const int16_t *x, mct_exponent *exponent, int8_t *dy,
                         int32_t *loss_q16, int32_t *prediction);
void mct_target_error_s16(const mct_target_error_s16_params *p, const mct_step *step,
                          const int32_t *sums, const int16_t *x, mct_exponent *exponent,
                          int16_t *dy, int32_t *loss_q16, int32_t *prediction);

#ifdef __cplusplus
}
#endif

#endif
