/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_columns.h"

#include <string.h>

#include "mct_bytes.h"
#include "mct_reservoir.h"
#include "mct_residual.h"

#define MCT_COLUMNS_SALT UINT32_C(0x80000000) /* nodes have smaller ones */
#define MCT_COLUMNS_PIECE 32u
#define MCT_COLUMN_USUAL 128 /* the score of one that moved as far as the others */

static int32_t mct_column(const mct_resampled *entry, const uint8_t *state, int32_t j) {
    return (int16_t)mct_get16(state + entry->columns + 2 * j);
}

/* ---- scores ---- */

/* Four for each doubling, from 4 on. */
static uint32_t mct_columns_level(uint64_t value) {
    uint32_t shift = 0;
    while (value > 7u) {
        value >>= 1;
        shift++;
    }
    return 4u * shift + (uint32_t)value;
}

/* How far column j has moved from the model's own, squared. residual: NULL for none. */
static uint64_t mct_columns_moved(const mct_resampled *weight, const mct_resampled *residual,
                                  const int8_t *initial, const uint8_t *state, int32_t j) {
    const int32_t bits = residual == NULL ? 0 : residual->bits;
    const int32_t middle = bits > 0 ? 1 << (bits - 1) : 0;
    const int8_t *before = initial + weight->backing + mct_column(weight, state, j);
    uint64_t sum = 0;
    for (int32_t r = 0; r < weight->rows; r++, before += weight->channels) {
        const int32_t i = r * weight->count + j;
        const int32_t whole = (int8_t)state[weight->trained + (uint32_t)i] - *before;
        const int32_t part =
            bits > 0 ? mct_residual_get(state + residual->trained, bits, i) - middle : 0;
        const int64_t moved = whole * (1 << bits) + part;
        sum += (uint64_t)(moved * moved);
    }
    return sum;
}

static void mct_columns_score_one(const mct_resampled *weight, const mct_resampled *residual,
                                  const int8_t *initial, uint8_t *state, uint8_t *scores) {
    uint64_t sum = 0;
    uint32_t unknown = 0;
    for (int32_t j = 0; j < weight->count; j++) {
        if (scores[j] == MCT_COLUMN_UNKNOWN) {
            sum += mct_columns_moved(weight, residual, initial, state, j);
            unknown++;
        }
    }
    const int32_t usual = unknown > 0 ? (int32_t)mct_columns_level(sum / unknown) : 0;
    for (int32_t j = 0; j < weight->count; j++) {
        if (scores[j] == MCT_COLUMN_UNKNOWN) {
            const uint64_t moved = mct_columns_moved(weight, residual, initial, state, j);
            const int32_t score = MCT_COLUMN_USUAL + (int32_t)mct_columns_level(moved) - usual;
            scores[j] = (uint8_t)mct_clamp(score, 1, (int32_t)MCT_COLUMN_UNKNOWN - 1);
        }
    }
}

void mct_columns_score(const mct_columns *all, const int8_t *initial, uint8_t *state) {
    const mct_resampled *weight = NULL, *residual = NULL;
    for (const mct_resampled *entry = all->entries; entry < all->entries + all->count; entry++) {
        if (entry->kind == MCT_COLUMNS_OF_WEIGHT) {
            weight = entry;
            residual = NULL;
        } else if (entry->kind == MCT_COLUMNS_OF_RESIDUAL) {
            residual = entry;
        } else {
            mct_columns_score_one(weight, residual, initial, state, state + entry->trained);
        }
    }
}

/* ---- draws ---- */

/* The scores of a weight's channels; NULL for none, as if all were 0. */
static const uint8_t *mct_columns_scores(const mct_columns *all, uint32_t n,
                                         const int8_t *backing) {
    for (n++; n < all->count && all->entries[n].kind != MCT_COLUMNS_OF_WEIGHT; n++) {
        if (all->entries[n].kind == MCT_COLUMNS_OF_SCORES) {
            return (const uint8_t *)backing + all->entries[n].backing;
        }
    }
    return NULL;
}

static uint32_t mct_columns_above(const uint8_t *scores, uint32_t channels, uint32_t level) {
    uint32_t count = 0;
    for (uint32_t channel = 0; channel < channels; channel++) {
        count += scores[channel] > level;
    }
    return count;
}

/* Those of the largest scores. Of equal ones selection sampling: each in turn, with the probability that
 * it is among those still wanted. */
static void mct_columns_draw(const mct_resampled *entry, uint32_t key, const uint8_t *scores,
                             uint8_t *state) {
    const uint32_t channels = (uint32_t)entry->channels, count = (uint32_t)entry->count;
    uint8_t *columns = state + entry->columns;
    uint32_t level = 0, above = 0, equal = channels;
    if (scores != NULL) {
        while ((above = mct_columns_above(scores, channels, level)) > count) {
            level++;
        }
        equal = (level > 0 ? mct_columns_above(scores, channels, level - 1u) : channels) - above;
    }
    uint32_t wanted = count - above;
    for (uint32_t channel = 0; channel < channels; channel++) {
        const uint32_t score = scores == NULL ? 0 : scores[channel];
        bool is_taken = score > level;
        if (score == level) {
            is_taken = mct_draw(channel, key, equal) < wanted;
            equal--;
            wanted -= is_taken;
        }
        if (is_taken) {
            mct_put16(columns, (uint16_t)channel);
            columns += 2;
        }
    }
}

void mct_columns_resample(const mct_columns *all, uint32_t key, const int8_t *backing,
                          uint8_t *state) {
    uint32_t number = 0;
    for (uint32_t n = 0; n < all->count; n++) {
        const mct_resampled *entry = &all->entries[n];
        if (entry->kind == MCT_COLUMNS_OF_WEIGHT) {
            mct_columns_draw(entry, mct_node_key(key, MCT_COLUMNS_SALT + number++),
                             mct_columns_scores(all, n, backing), state);
        }
        const uint8_t *whole = (const uint8_t *)backing + entry->backing;
        int32_t i = 0;
        for (int32_t row = 0; row < entry->rows * entry->channels; row += entry->channels) {
            for (int32_t j = 0; j < entry->count; j++) {
                const int32_t at = row + mct_column(entry, state, j);
                const int32_t value = mct_residual_get(whole, entry->bits, at);
                mct_residual_set(state + entry->trained, entry->bits, i++, value);
            }
        }
    }
}

/* Puts what is trained of an entry over the bytes `offset` … `end` - 1 of the backing store. */
static void mct_columns_merge(const mct_resampled *entry, const uint8_t *state, uint32_t offset,
                              uint32_t end, uint8_t *to) {
    const uint32_t channels = (uint32_t)entry->channels, bits = (uint32_t)entry->bits;
    const uint32_t size = ((uint32_t)entry->rows * channels * bits + 7u) / 8u;
    if (end <= entry->backing || offset >= entry->backing + size) {
        return; /* most entries: none of the piece is theirs */
    }
    const uint32_t before = offset > entry->backing ? offset - entry->backing : 0;
    const uint32_t row_bits = channels * bits;
    for (uint32_t r = 8u * before / row_bits; r < (uint32_t)entry->rows; r++) {
        const uint32_t row = 8u * entry->backing + r * row_bits;
        if (row >= 8u * end) {
            return;
        }
        for (int32_t j = 0; j < entry->count; j++) {
            const uint32_t at = row + (uint32_t)mct_column(entry, state, j) * bits;
            if (at >= 8u * end) {
                break;
            }
            if (at >= 8u * offset) {
                const int32_t i = (int32_t)r * entry->count + j;
                const int32_t value = mct_residual_get(state + entry->trained, entry->bits, i);
                mct_residual_set(to, entry->bits, (int32_t)((at - 8u * offset) / bits), value);
            }
        }
    }
}

void mct_columns_read(const mct_columns *all, const int8_t *backing, const uint8_t *state,
                      uint32_t offset, uint32_t count, uint8_t *to) {
    memcpy(to, backing + offset, count);
    for (uint32_t n = 0; n < all->count; n++) {
        mct_columns_merge(&all->entries[n], state, offset, offset + count, to);
    }
}

void mct_columns_header(const mct_columns *all, uint64_t model_hash, const int8_t *backing,
                        const uint8_t *state, uint8_t header[MCT_STATE_HEADER_BYTES]) {
    mct_state_begin(model_hash, all->state_bytes + all->backing_bytes, header);
    uint32_t crc = mct_crc32(mct_crc32(0, header, MCT_STATE_CRC), state, all->state_bytes);
    uint8_t piece[MCT_COLUMNS_PIECE];
    for (uint32_t offset = 0; offset < all->backing_bytes; offset += MCT_COLUMNS_PIECE) {
        const uint32_t left = all->backing_bytes - offset;
        const uint32_t count = left < MCT_COLUMNS_PIECE ? left : MCT_COLUMNS_PIECE;
        mct_columns_read(all, backing, state, offset, count, piece);
        crc = mct_crc32(crc, piece, count);
    }
    mct_put32(header + MCT_STATE_CRC, crc);
}

mct_status mct_columns_check(const mct_columns *all, const uint8_t *state) {
    for (uint32_t n = 0; n < all->count; n++) {
        const mct_resampled *weight = &all->entries[n];
        int32_t before = -1;
        for (int32_t j = 0; j < weight->count; j++) {
            const int32_t column = mct_column(weight, state, j);
            if (column <= before || column >= weight->channels) {
                return MCT_ERROR_RANGE;
            }
            before = column;
        }
    }
    return MCT_OK;
}
