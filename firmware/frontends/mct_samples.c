/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_samples.h"

#include <stdatomic.h>
#include <string.h>

void mct_samples_push(mct_samples *queue, int16_t *room, uint32_t size, uint32_t width,
                      const int16_t *samples, uint32_t count) {
    const uint32_t written = queue->written;
    const uint32_t free = size - (written - queue->taken);
    const uint32_t kept = count < free ? count : free;
    const uint32_t begin = written & (size - 1u);
    const uint32_t first = kept < size - begin ? kept : size - begin;
    atomic_thread_fence(memory_order_acquire); /* what was read there was read before */
    memcpy(room + begin * width, samples, first * width * sizeof *room);
    memcpy(room, samples + first * width, (kept - first) * width * sizeof *room);
    atomic_thread_fence(memory_order_release);
    queue->written = written + kept;
    queue->lost = queue->lost + (count - kept);
}

uint32_t mct_samples_waiting(const mct_samples *queue, const int16_t *room, uint32_t size,
                             uint32_t width, const int16_t **first) {
    const uint32_t taken = queue->taken;
    const uint32_t waiting = queue->written - taken;
    const uint32_t begin = taken & (size - 1u);
    atomic_thread_fence(memory_order_acquire);
    *first = room + begin * width;
    return waiting < size - begin ? waiting : size - begin;
}

void mct_samples_take(mct_samples *queue, uint32_t count) {
    atomic_thread_fence(memory_order_release);
    queue->taken = queue->taken + count;
}

void mct_samples_skip(mct_samples *queue) {
    queue->taken = queue->written;
}

int8_t mct_code_of(int32_t feature, const int16_t *steps, uint32_t count, int32_t first) {
    uint32_t low = 0, high = count; /* steps below `low` are reached, those from `high` on not */
    while (low < high) {
        const uint32_t middle = (low + high) / 2u;
        if (feature >= steps[middle]) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    return (int8_t)(first + (int32_t)low);
}
