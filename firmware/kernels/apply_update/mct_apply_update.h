/* SPDX-License-Identifier: Apache-2.0 */
/* w -= learning_rate * rate * dw for an accumulated gradient dw, once per group of samples.
 *
 * dw and the parameter's values: [rows][columns]   rows_per_rate: rows that share an output channel's
 * rate; 0: the rate varies along the columns. dropped_bits: that dw lacks (MCT_DROPPED_BITS_*) */
#ifndef MCT_APPLY_UPDATE_H
#define MCT_APPLY_UPDATE_H

#include "mct_types.h"
#include "mct_update.h"
#include "mct_update_rule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, columns;
    int32_t rows_per_rate;
    int32_t dropped_bits;
    mct_parameter parameter;
} mct_apply_update_s8_params;
typedef mct_apply_update_s8_params mct_apply_update_s32_params;
typedef mct_apply_update_s8_params mct_apply_update_s16_params;

void mct_apply_update_s8(const mct_apply_update_s8_params *p, const mct_step *step,
                         const int32_t *dw, const mct_exponent *exponent);

/* Like mct_apply_update_s8, for a bias: one row, a rate per column, no residual. */
void mct_apply_update_s32(const mct_apply_update_s32_params *p, const mct_step *step,
                          const int32_t *db, const mct_exponent *exponent);

/* Like mct_apply_update_s32, for the difference of a bias. */
void mct_apply_update_s16(const mct_apply_update_s16_params *p, const mct_step *step,
                          const int32_t *db, const mct_exponent *exponent);

/* Updates by a rule of mct_update_rule.h. scratch: the numbers of one output channel. */
typedef struct {
    int32_t rows, columns;
    int32_t rows_per_rate;
    int32_t dropped_bits;
    mct_parameter parameter;
    mct_update_rule rule;
} mct_apply_adapt_s8_params;
typedef mct_apply_adapt_s8_params mct_apply_adapt_s32_params;
typedef mct_apply_adapt_s8_params mct_apply_adapt_s16_params;

void mct_apply_adapt_s8(const mct_apply_adapt_s8_params *p, const mct_step *step, const int32_t *dw,
                        const mct_exponent *exponent, int32_t *scratch);
void mct_apply_adapt_s32(const mct_apply_adapt_s32_params *p, const mct_step *step,
                         const int32_t *db, const mct_exponent *exponent, int32_t *scratch);
void mct_apply_adapt_s16(const mct_apply_adapt_s16_params *p, const mct_step *step,
                         const int32_t *db, const mct_exponent *exponent, int32_t *scratch);

#ifdef __cplusplus
}
#endif

#endif
