/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots in pages of the flash that have no code: RM0316, "Embedded Flash memory".
 *
 * While the flash erases or writes, the core waits as soon as it reads from it. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32f3.h"

#if MCT_SLOT_BYTES > 0

#define KEYR (MCT_FLASH + 0x04u)
#define SR (MCT_FLASH + 0x0Cu)
#define CR (MCT_FLASH + 0x10u)
#define AR (MCT_FLASH + 0x14u)

#define SR_BUSY (1u << 0)
#define SR_ERRORS (1u << 4 | 1u << 2)    /* WRPRTERR; PGERR: what is written to was not erased */
#define SR_CLEARED (SR_ERRORS | 1u << 5) /* EOP: done */
#define CR_PROGRAM (1u << 0)
#define CR_ERASE (1u << 1)
#define CR_START (1u << 6)
#define CR_LOCK (1u << 7)

#include "mct_flash_body.h"

bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t bytes) {
    const uint32_t from = slot_address(slot) + offset;
    bool good = true;
    unlock();
    while (bytes > 0 && good) {
        bytes -= MCT_SLOT_ERASE_BYTES;
        MCT_REGISTER(CR) = CR_ERASE;
        MCT_REGISTER(AR) = from + bytes;
        MCT_REGISTER(CR) = CR_ERASE | CR_START;
        good = finished();
    }
    MCT_REGISTER(CR) = CR_LOCK;
    return good;
}

/* 16 bits at a time, the only width that the flash takes. */
bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const uint32_t to = slot_address(slot) + offset;
    bool good = true;
    unlock();
    MCT_REGISTER(CR) = CR_PROGRAM;
    for (uint32_t i = 0; i < count && good; i += 2) {
        const uint16_t half = (uint16_t)(bytes[i] | bytes[i + 1] << 8);
        *(volatile uint16_t *)(uintptr_t)(to + i) = half;
        good = finished();
    }
    MCT_REGISTER(CR) = CR_LOCK;
    return good;
}

#endif
