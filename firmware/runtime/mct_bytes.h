/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers in bytes, at any address. */
#ifndef MCT_BYTES_H
#define MCT_BYTES_H

#include <stdint.h>

#include "mct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline void mct_put16(uint8_t *to, uint16_t value) {
    to[0] = MCT_CAST(uint8_t, value);
    to[1] = MCT_CAST(uint8_t, value >> 8);
}

static inline void mct_put32(uint8_t *to, uint32_t value) {
    mct_put16(to, MCT_CAST(uint16_t, value));
    mct_put16(to + 2, MCT_CAST(uint16_t, value >> 16));
}

static inline void mct_put64(uint8_t *to, uint64_t value) {
    mct_put32(to, MCT_CAST(uint32_t, value));
    mct_put32(to + 4, MCT_CAST(uint32_t, value >> 32));
}

static inline uint16_t mct_get16(const uint8_t *from) {
    return MCT_CAST(uint16_t, from[0] | from[1] << 8);
}

static inline uint32_t mct_get32(const uint8_t *from) {
    return MCT_CAST(uint32_t, mct_get16(from)) | MCT_CAST(uint32_t, mct_get16(from + 2)) << 16;
}

static inline uint64_t mct_get64(const uint8_t *from) {
    return mct_get32(from) | MCT_CAST(uint64_t, mct_get32(from + 4)) << 32;
}

#ifdef __cplusplus
}
#endif

#endif
