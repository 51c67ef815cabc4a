/* SPDX-License-Identifier: Apache-2.0 */
/* w = frozen, with column channels[j] replaced by column j of trained: a partly trained weight.
 *
 * frozen, w: [rows][columns]   trained: [rows][trained_columns]   channels: NULL means j itself
 * Nothing may overlap. */
#ifndef MCT_MERGE_COLUMNS_H
#define MCT_MERGE_COLUMNS_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t rows, columns, trained_columns;
    const int16_t *channels;
} mct_merge_columns_s8_params;

void mct_merge_columns_s8(const mct_merge_columns_s8_params *p, const int8_t *frozen,
                          const int8_t *trained, int8_t *w);

#ifdef __cplusplus
}
#endif

#endif
