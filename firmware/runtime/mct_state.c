/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_state.h"

#include <string.h>

#include "mct_bytes.h"
#include "mct_update.h"

/* Where the parts of the header stand. */
enum {
    MCT_AT_VERSION = 4,
    MCT_AT_MODEL = 8,
    MCT_AT_SIZE = 16,
};

/* What a state begins with: random state, updates, samples. */
#define MCT_COUNTER_BYTES 12

uint32_t mct_crc32(uint32_t crc, const uint8_t *bytes, size_t count) {
    static const uint32_t quarter[16] = {
        /* of four bits; a table for eight would take 1 KB */
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
        0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
        0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = (crc >> 4) ^ quarter[crc & 15];
        crc = (crc >> 4) ^ quarter[crc & 15];
    }
    return ~crc;
}

static uint32_t mct_state_crc(const uint8_t *header, const uint8_t *state, uint32_t state_bytes) {
    return mct_crc32(mct_crc32(0, header, MCT_STATE_CRC), state, state_bytes);
}

void mct_state_begin(uint64_t model_hash, uint32_t state_bytes,
                     uint8_t header[MCT_STATE_HEADER_BYTES]) {
    memcpy(header, "MCTS", MCT_AT_VERSION);
    mct_put32(header + MCT_AT_VERSION, MCT_STATE_VERSION);
    mct_put64(header + MCT_AT_MODEL, model_hash);
    mct_put32(header + MCT_AT_SIZE, state_bytes);
}

void mct_state_header(uint64_t model_hash, const uint8_t *state, uint32_t state_bytes,
                      uint8_t header[MCT_STATE_HEADER_BYTES]) {
    mct_state_begin(model_hash, state_bytes, header);
    mct_put32(header + MCT_STATE_CRC, mct_state_crc(header, state, state_bytes));
}

mct_status mct_state_check_header(uint64_t model_hash, uint32_t state_bytes,
                                  const uint8_t header[MCT_STATE_HEADER_BYTES]) {
    if (memcmp(header, "MCTS", MCT_AT_VERSION) != 0 ||
        mct_get32(header + MCT_AT_VERSION) != MCT_STATE_VERSION) {
        return MCT_ERROR_FORMAT;
    }
    if (mct_get64(header + MCT_AT_MODEL) != model_hash) {
        return MCT_ERROR_MODEL;
    }
    return mct_get32(header + MCT_AT_SIZE) == state_bytes ? MCT_OK : MCT_ERROR_SIZE;
}

mct_status mct_state_check(const uint8_t header[MCT_STATE_HEADER_BYTES], const uint8_t *state,
                           uint32_t state_bytes) {
    const uint32_t crc = mct_state_crc(header, state, state_bytes);
    return crc == mct_get32(header + MCT_STATE_CRC) ? MCT_OK : MCT_ERROR_CHECKSUM;
}

mct_status mct_state_check_biases(const uint8_t *state, uint32_t biases) {
    const uint8_t *at = state + MCT_COUNTER_BYTES;
    for (uint32_t i = 0; i < biases; i++, at += sizeof(uint32_t)) {
        /* as many below 0 as above it, and 0 */
        if (mct_get32(at) + (uint32_t)MCT_BIAS_LIMIT > 2u * (uint32_t)MCT_BIAS_LIMIT) {
            return MCT_ERROR_RANGE;
        }
    }
    return MCT_OK;
}
