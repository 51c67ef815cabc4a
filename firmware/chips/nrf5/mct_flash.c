/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots in pages of the flash that have no code: "NVMC — Non-volatile memory controller".
 *
 * While the flash erases or writes, the core waits as soon as it reads from it. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_nrf5.h"

#if MCT_SLOT_BYTES > 0

#define READY (MCT_NRF5_NVMC + 0x400u)
#define CONFIG (MCT_NRF5_NVMC + 0x504u)
#define ERASE_PAGE (MCT_NRF5_NVMC + 0x508u)

#define CONFIG_READ 0u
#define CONFIG_WRITE 1u
#define CONFIG_ERASE 2u

static uint32_t slot_address(int32_t slot) {
    return slot == 0 ? MCT_SLOT_0 : MCT_SLOT_1;
}

const uint8_t *mct_board_slot(int32_t slot) {
    return (const uint8_t *)(uintptr_t)slot_address(slot);
}

static void wait_until_ready(void) {
    mct_synchronize();
    while ((MCT_REGISTER(READY) & 1u) == 0) {
    }
}

static void configure(uint32_t what) {
    MCT_REGISTER(CONFIG) = what;
    wait_until_ready();
}

/* The controller reports no errors; the caller reads back what was written. */
bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t bytes) {
    const uint32_t from = slot_address(slot) + offset;
    configure(CONFIG_ERASE);
    while (bytes > 0) {
        bytes -= MCT_SLOT_ERASE_BYTES;
        MCT_REGISTER(ERASE_PAGE) = from + bytes;
        wait_until_ready();
    }
    configure(CONFIG_READ);
    return true;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const uint32_t to = slot_address(slot) + offset;
    configure(CONFIG_WRITE);
    for (uint32_t i = 0; i < count; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, sizeof word);
        MCT_REGISTER(to + i) = word;
        wait_until_ready();
    }
    configure(CONFIG_READ);
    return true;
}

#endif
