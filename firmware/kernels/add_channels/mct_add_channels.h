/* SPDX-License-Identifier: Apache-2.0 */
/* y = clamp(requantize(a') + requantize(b') + zero_point): as mct_add_s8, with a number of b for
 * each channel of a; and the gradient of b.
 *
 * a, y: [positions][channels]; y may be a. b: [channels]. mask: where y did not clamp, or NULL.
 * A negative multiplier of b subtracts it: TFLite's SUB. left_shift <= 22. */
#ifndef MCT_ADD_CHANNELS_H
#define MCT_ADD_CHANNELS_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As mct_scaled of add.h, which is not there in every project. */
typedef struct {
    int32_t zero_point, mult_q31, shift;
} mct_channels_scaled;

typedef struct {
    int32_t positions, channels;
    mct_channels_scaled a, b, y;
    int32_t left_shift;
    int32_t low, high;
} mct_add_channels_s8_params;

void mct_add_channels_s8(const mct_add_channels_s8_params *p, const int8_t *a, const int8_t *b,
                         int8_t *y, uint8_t *mask);

/* db[c] = stage(sum over positions of dy).
 *
 * dy: [positions][channels]   db: [channels]   mask: a bit per element of db, or NULL
 * scratch: `channels` sums (int32, s16: int64). |sum| <= positions * 127 for s8. */
typedef struct {
    int32_t positions, channels;
    mct_gradient_stage stage;
} mct_add_channels_grad_input_s8_params;
typedef mct_add_channels_grad_input_s8_params mct_add_channels_grad_input_s16_params;

void mct_add_channels_grad_input_s8(const mct_add_channels_grad_input_s8_params *p,
                                    const mct_step *step, const int8_t *dy,
                                    const mct_exponent *dy_exponent, const uint8_t *mask,
                                    mct_exponent *exponent, int8_t *db, int32_t *scratch);
void mct_add_channels_grad_input_s16(const mct_add_channels_grad_input_s16_params *p,
                                     const mct_step *step, const int16_t *dy,
                                     const mct_exponent *dy_exponent, const uint8_t *mask,
                                     mct_exponent *exponent, int16_t *db, int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
