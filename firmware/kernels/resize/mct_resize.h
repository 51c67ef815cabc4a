/* SPDX-License-Identifier: Apache-2.0 */
/* y[r][s] = x at row rows[r] / 1024 and column columns[s] / 1024, and the gradient.
 *
 * Between two pixels bilinearly, rounded once, halves away from zero: TFLite's RESIZE_BILINEAR in
 * int8. At pixels alone: RESIZE_NEAREST_NEIGHBOR.
 * x: [x.h][x.w][c]   y: [y.h][y.w][c]   rows: [y.h], columns: [y.w], ascending, from 0 to
 * (x.h - 1) * 1024 and (x.w - 1) * 1024.
 * Nothing may overlap. Sums stay below 128 * 2^20. */
#ifndef MCT_RESIZE_H
#define MCT_RESIZE_H

#include "mct_gradient.h"
#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    mct_shape x, y;
    const int32_t *rows;
    const int32_t *columns;
} mct_resize_bilinear_s8_params;
typedef mct_resize_bilinear_s8_params mct_resize_nearest_s8_params;

void mct_resize_bilinear_s8(const mct_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y);

/* Of positions that are multiples of 1024: pixels are copied. */
void mct_resize_nearest_s8(const mct_resize_nearest_s8_params *p, const int8_t *x, int8_t *y);

/* dx = stage(sum of dy times the weight that its pixel gave this one).
 *
 * Weights of rows are counted in row_unit / 1024, of which they are multiples, of columns alike;
 * the stage multiplies by that. mask: a bit per element of dx, or NULL. scratch: c sums (int32 for
 * s8, int64 for s16). All weights that a pixel gave, in units, times 127 must be below 2^31. */
typedef struct {
    mct_shape dx, dy;
    const int32_t *rows;
    const int32_t *columns;
    int32_t row_unit, column_unit;
    mct_gradient_stage stage;
} mct_resize_grad_input_s8_params;
typedef mct_resize_grad_input_s8_params mct_resize_grad_input_s16_params;

void mct_resize_grad_input_s8(const mct_resize_grad_input_s8_params *p, const mct_step *step,
                              const int8_t *dy, const mct_exponent *dy_exponent,
                              const uint8_t *mask, mct_exponent *exponent, int8_t *dx,
                              int32_t *scratch);
void mct_resize_grad_input_s16(const mct_resize_grad_input_s16_params *p, const mct_step *step,
                               const int16_t *dy, const mct_exponent *dy_exponent,
                               const uint8_t *mask, mct_exponent *exponent, int16_t *dx,
                               int64_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
