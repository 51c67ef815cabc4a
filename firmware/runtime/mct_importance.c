/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_importance.h"

#include <stddef.h>

#include "mct_bytes.h"
#include "mct_fixedpoint.h"
#include "mct_residual.h"

#define MCT_LEAST_EXPONENT (-32768 - 64)

/* A number with its residual bits. */
static int32_t mct_stored(const mct_importance_tensor *t, const uint8_t *state, uint32_t i) {
    const uint8_t *at = state + t->offset + i * t->size_bytes;
    if (t->size_bytes == 4) {
        return (int32_t)mct_get32(at);
    }
    if (t->size_bytes == 2) {
        return (int16_t)mct_get16(at);
    }
    const int32_t residual = mct_residual_get(state + t->residual, t->residual_bits, (int32_t)i);
    return (int8_t)*at * (1 << t->residual_bits) + residual;
}

static int32_t mct_moved(int32_t from, int32_t to) {
    const int64_t by = (int64_t)to - from;
    const int64_t most = MCT_IMPORTANCE_MOST_MOVED;
    return (int32_t)(by > most ? most : by < -most ? -most : by);
}

/* The sum over a channel. */
static int64_t mct_channel_helped(const mct_importance_tensor *t, uint32_t channel,
                                  const uint8_t *before, const uint8_t *between,
                                  const uint8_t *after) {
    int64_t sum = 0;
    for (uint32_t i = channel * t->inner; i < t->count; i += t->channels * t->inner) {
        for (uint32_t j = i; j < i + t->inner; j++) {
            const int32_t first = mct_stored(t, before, j), last = mct_stored(t, after, j);
            const int32_t middle = between == NULL ? last : mct_stored(t, between, j);
            const int32_t moved = mct_moved(first, middle);
            sum += moved * (between == NULL ? moved : mct_moved(middle, last));
        }
    }
    return sum;
}

static int32_t mct_bits(uint64_t value) {
    int32_t bits = 0;
    for (; value > 0; value >>= 1) {
        bits++;
    }
    return bits;
}

void mct_importance(const mct_importance_tensor *tensors, uint32_t count, const uint8_t *before,
                    const uint8_t *between, const uint8_t *after, int64_t *helped,
                    int32_t *importance) {
    int32_t most = MCT_LEAST_EXPONENT;
    for (uint32_t n = 0; n < count; n++) {
        const mct_importance_tensor *t = &tensors[n];
        int64_t total = 0;
        for (uint32_t c = 0; c < t->channels; c++) {
            const int64_t sum = mct_channel_helped(t, c, before, between, after);
            total += (sum >> t->dropped_bits) * t->factors[c];
        }
        helped[n] = total;
        if (total > 0) {
            most = mct_max(most, mct_bits((uint64_t)total) + t->exponent);
        }
    }
    const int32_t bits = 31 - mct_bits(count);
    for (uint32_t n = 0; n < count; n++) {
        const int32_t shift = tensors[n].exponent - most + bits;
        const int32_t value = helped[n] <= 0 || shift <= -63 ? 0
                              : shift >= 0                   ? (int32_t)(helped[n] << shift)
                                                             : (int32_t)(helped[n] >> -shift);
        importance[n] = mct_max(value, 1);
    }
}
