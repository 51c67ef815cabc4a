/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots in the upper part of the code's RAM: they survive a restart, not a power cut. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"

#if MCT_SLOT_BYTES > 0

static uint8_t *slot_bytes(int32_t slot) {
    return (uint8_t *)(uintptr_t)(slot == 0 ? MCT_SLOT_0 : MCT_SLOT_1);
}

const uint8_t *mct_board_slot(int32_t slot) {
    return slot_bytes(slot);
}

bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t count) {
    while (count > 0) {
        count -= MCT_PAGE_BYTES;
        memset(slot_bytes(slot) + offset + count, 0xFF, MCT_PAGE_BYTES);
    }
    return true;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    memcpy(slot_bytes(slot) + offset, bytes, count);
    return true;
}

#endif
