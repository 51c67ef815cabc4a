/* w -= learning_rate * rate * dw for an accumulated gradient dw, once per group of samples.
 *
 * dw, w: [rows][columns]   rows_per_rate: rows that share an output channel's rate; 0: the rate varies along the columns. dropped_bits: that dw
 * lacks (MCT_DROPPED_BITS_*). residual: of the weights, packed, or NULL */
#ifndef MCT_APPLY_UPDATE_H
#define MCT_APPLY_UPDATE_H

#include "mct_types.h"
#include "mct_update.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, columns;
    int32_t rows_per_rate;
    int32_t dropped_bits;
    mct_update_rule rule;
} mct_apply_update_s8_params;
typedef mct_apply_update_s8_params mct_apply_update_s32_params;
typedef mct_apply_update_s8_params mct_apply_update_s16_params;

void mct_apply_update_s8(const mct_apply_update_s8_params *p, const mct_step *step,
                         const int32_t *dw, const mct_exponent *exponent, int8_t *w,
                         uint8_t *residual);

/* The same for a bias: one row, a rate per column, no residual. */
void mct_apply_update_s32(const mct_apply_update_s32_params *p, const mct_step *step,
                          const int32_t *db, const mct_exponent *exponent, int32_t *b);

/* The same for the difference of a bias. */
void mct_apply_update_s16(const mct_apply_update_s16_params *p, const mct_step *step,
                          const int32_t *db, const mct_exponent *exponent, int16_t *difference);

#ifdef __cplusplus
}
#endif

#endif
