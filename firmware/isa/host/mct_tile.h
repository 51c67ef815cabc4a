/* SPDX-License-Identifier: Apache-2.0 */
/* Where vector bodies hand over the sums that they have computed. */
#ifndef MCT_TILE_H
#define MCT_TILE_H

#include <stdint.h>

/* sums[r * stride + c] belongs to (row + r, column + c) for r < rows, c < columns. A row is a
 * position of an image and a column is a channel, or they are a weight's output and input channel. */
typedef struct {
    int32_t row, rows;
    int32_t column, columns;
    int32_t stride;
    const int32_t *sums;
} mct_tile;

typedef void mct_take(void *result, const mct_tile *tile);

#endif
