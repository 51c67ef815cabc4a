/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of several outputs has besides: each one's labels, and the sum of their losses. */
#ifndef MCT_SEVERAL_H
#define MCT_SEVERAL_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] = labels[first + i], 0 <= i < count; what y's type cannot hold loses its upper bits.
 *
 * y overlaps no label. */
typedef struct {
    int32_t first, count;
} mct_label_part_s16_params;
typedef mct_label_part_s16_params mct_label_part_s32_params;
typedef mct_label_part_s16_params mct_label_part_u8_params;

void mct_label_part_s16(const mct_label_part_s16_params *p, const int16_t *labels, int16_t *y);
void mct_label_part_s32(const mct_label_part_s32_params *p, const int16_t *labels, int32_t *y);
void mct_label_part_u8(const mct_label_part_u8_params *p, const int16_t *labels, uint8_t *y);

/* loss = min(sum of (loss * weight_q24[i]) >> 24, 2^31 - 1) of `count` losses a, b … in Q16.
 *
 * 0 <= loss, weight_q24 < 2^31: a product is below 2^62, and eight of them, shifted, below 2^41.
 * Absent losses are NULL. said: the prediction that becomes the step's; NULL: 0. */
typedef struct {
    int32_t count;
    const int32_t *weight_q24; /* [count] */
} mct_loss_sum_s32_params;

void mct_loss_sum_s32(const mct_loss_sum_s32_params *p, const int32_t *a, const int32_t *b,
                      const int32_t *c, const int32_t *d, const int32_t *e, const int32_t *f,
                      const int32_t *g, const int32_t *h, const int32_t *said, int32_t *loss,
                      int32_t *prediction);

#ifdef __cplusplus
}
#endif

#endif
