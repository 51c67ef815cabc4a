/* SPDX-License-Identifier: Apache-2.0 */
/* Input-channel resampling: weights of which other columns are trained from time to time.
 * mcutrain/sparse/columns.py draws the same.
 *
 * As a whole they lie in a backing store, which is read and not written: constants of the program, or the
 * end of a saved state, in flash. Columns that are trained now are in the state, and count in the place
 * of those in the backing store. */
#ifndef MCT_COLUMNS_H
#define MCT_COLUMNS_H

#include <stdbool.h>

#include "mct_state.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_COLUMN_UNKNOWN 255u /* the score of one that was never trained, larger than any */

typedef enum {
    MCT_COLUMNS_OF_WEIGHT,   /* 8 bits each */
    MCT_COLUMNS_OF_RESIDUAL, /* packed as in mct_residual.h */
    MCT_COLUMNS_OF_SCORES,   /* one row: what each column was found to be worth */
} mct_columns_kind;

/* Numbers of a weight, [rows][channels], of which [rows][count] are trained. The table has the
 * weight itself, and behind it its residual bits and its scores, if it has some, with the same
 * columns. */
typedef struct {
    uint32_t backing;          /* where it begins, in the backing store */
    uint32_t trained, columns; /* in the state: what is trained, and which columns, int16 */
    int32_t rows, channels, count, bits;
    mct_columns_kind kind;
} mct_resampled;

/* All of them, and the state and the backing store that they are in. */
typedef struct {
    const mct_resampled *entries;
    uint32_t count, backing_bytes, state_bytes;
} mct_columns;

/* Scores the trained columns that have none yet by how far they are from the model's own weights, of
 * weights with scores. initial: the backing store as it was at first. */
void mct_columns_score(const mct_columns *all, const int8_t *initial, uint8_t *state);

/* Draws the columns of all weights anew, of the largest scores in the backing store if there are some,
 * and takes what they hold from there. key: of the random numbers. */
void mct_columns_resample(const mct_columns *all, uint32_t key, const int8_t *backing,
                          uint8_t *state);

/* Bytes offset … offset + count of the backing store with what is trained now. */
void mct_columns_read(const mct_columns *all, const int8_t *backing, const uint8_t *state,
                      uint32_t offset, uint32_t count, uint8_t *to);

/* mct_state_header of the state and the backing store. */
void mct_columns_header(const mct_columns *all, uint64_t model_hash, const int8_t *backing,
                        const uint8_t *state, uint8_t header[MCT_STATE_HEADER_BYTES]);

/* Whether the columns of a state are ascending, and there. */
mct_status mct_columns_check(const mct_columns *all, const uint8_t *state);

#ifdef __cplusplus
}
#endif

#endif
