#include "mct_state.h"

#include <string.h>

static void mct_put32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t mct_get32(const uint8_t *from) {
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
           (uint32_t)from[3] << 24;
}

uint32_t mct_crc32(uint32_t crc, const uint8_t *bytes, size_t count) {
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

void mct_state_pack(uint64_t model_hash, const uint8_t *state, uint32_t state_bytes,
                    uint8_t *saved) {
    memcpy(saved, "MCTS", 4);
    saved[4] = MCT_STATE_VERSION;
    memset(saved + 5, 0, 3);
    /* the hash stands at 8, the size at 16, the checksum at 20 */
    mct_put32(saved + 8, (uint32_t)model_hash);
    mct_put32(saved + 12, (uint32_t)(model_hash >> 32));
    mct_put32(saved + 16, state_bytes);
    memcpy(saved + MCT_STATE_HEADER_BYTES, state, state_bytes);
    mct_put32(saved + 20, mct_crc32(mct_crc32(0, saved, 20), state, state_bytes));
}

mct_status mct_state_check(uint64_t model_hash, uint32_t state_bytes, const uint8_t *saved,
                           size_t saved_bytes) {
    if (saved_bytes < MCT_STATE_HEADER_BYTES) {
        return MCT_ERROR_SIZE;
    }
    if (memcmp(saved, "MCTS", 4) != 0 || mct_get32(saved + 4) != MCT_STATE_VERSION) {
        return MCT_ERROR_FORMAT;
    }
    const uint64_t found = mct_get32(saved + 8) | (uint64_t)mct_get32(saved + 12) << 32;
    if (found != model_hash) {
        return MCT_ERROR_MODEL;
    }
    if (mct_get32(saved + 16) != state_bytes ||
        saved_bytes != (size_t)state_bytes + MCT_STATE_HEADER_BYTES) {
        return MCT_ERROR_SIZE;
    }
    const uint32_t crc =
        mct_crc32(mct_crc32(0, saved, 20), saved + MCT_STATE_HEADER_BYTES, state_bytes);
    return crc == mct_get32(saved + 20) ? MCT_OK : MCT_ERROR_CHECKSUM;
}
