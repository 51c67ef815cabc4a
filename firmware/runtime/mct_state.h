/* SPDX-License-Identifier: Apache-2.0 */
/* The trained state as bytes with a header and a checksum. */
#ifndef MCT_STATE_H
#define MCT_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MCT_OK = 0,
    MCT_ERROR_LABEL = 1,    /* the label is no class of this model */
    MCT_ERROR_SIZE = 2,     /* too few or too many bytes */
    MCT_ERROR_FORMAT = 3,   /* no saved state, or of another version of mcutrain */
    MCT_ERROR_MODEL = 4,    /* of another model or scheme */
    MCT_ERROR_CHECKSUM = 5, /* damaged */
    MCT_ERROR_RANGE = 6,  /* a bias is beyond what sums allow; training never makes such a state */
    MCT_ERROR_BUDGET = 7, /* too little time for what is always trained; see mct_elastic.h */
    MCT_UNFINISHED = 8,   /* no error: the step goes on with the next call; see mct_train_some */
    MCT_ERROR_BUSY = 9,   /* a step is under way that the call would change */
    MCT_ERROR_IDLE = 10,  /* no step is under way */
} mct_status;

/* "MCTS", version, model hash (8 bytes), state bytes, CRC-32 of all before it and of the state;
 * numbers are little-endian. */
#define MCT_STATE_HEADER_BYTES 24
#define MCT_STATE_VERSION 1u

/* The symbol has the version in its name: two models of different versions do not link, where the one
 * would else run on the other's kernels. */
#define MCT_VERSIONED(name, version) MCT_JOINED(name, version)
#define MCT_JOINED(name, version) name##_v##version
#define mct_state_header MCT_VERSIONED(mct_state_header, MCT_VERSION)

/* The checksum is the last of the header. */
#define MCT_STATE_CRC 20

/* Writes a header but for the checksum. */
void mct_state_begin(uint64_t model_hash, uint32_t state_bytes,
                     uint8_t header[MCT_STATE_HEADER_BYTES]);

/* Writes the header of a state. */
void mct_state_header(uint64_t model_hash, const uint8_t *state, uint32_t state_bytes,
                      uint8_t header[MCT_STATE_HEADER_BYTES]);

/* Whether a header is of this version, model and size; the checksum is not looked at. */
mct_status mct_state_check_header(uint64_t model_hash, uint32_t state_bytes,
                                  const uint8_t header[MCT_STATE_HEADER_BYTES]);

/* Whether a header's checksum is that of the header and the state. */
mct_status mct_state_check(const uint8_t header[MCT_STATE_HEADER_BYTES], const uint8_t *state,
                           uint32_t state_bytes);

/* Whether the first `biases` numbers of a state, all that it has, are within ±MCT_BIAS_LIMIT. */
mct_status mct_state_check_biases(const uint8_t *state, uint32_t biases);

/* CRC-32 as in zlib, continued from `crc` (0 to begin). */
uint32_t mct_crc32(uint32_t crc, const uint8_t *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
