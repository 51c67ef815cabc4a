/* SPDX-License-Identifier: Apache-2.0 */
/* y[i][j] = table[id][j] with id = ids[i], held in 0 to rows - 1: a row for each token id.
 *
 * ids: [count]   table: [rows][width]   y: [count][width]. Nothing overlaps. No id reads beyond the
 * table: one below 0 means row 0, one above the last row means that. */
#ifndef MCT_EMBEDDING_H
#define MCT_EMBEDDING_H

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t count, rows, width;
} mct_embedding_s8_params;

void mct_embedding_s8(const mct_embedding_s8_params *p, const int16_t *ids, const int8_t *table,
                      int8_t *y);

#ifdef __cplusplus
}
#endif

#endif
