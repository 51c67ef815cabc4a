/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots in sectors of the flash that have no code: RM0090, RM0385, RM0390, "Embedded flash".
 *
 * While the flash erases or writes, the core waits as soon as it reads from it. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32.h"

#if MCT_SLOT_BYTES > 0

#define KEYR (MCT_FLASH + 0x04u)
#define SR (MCT_FLASH + 0x0Cu)
#define CR (MCT_FLASH + 0x10u)

#define SR_ERRORS 0xF2u /* OPERR, WRPERR, PGAERR, PGPERR, PGSERR or ERSERR */
#define SR_CLEARED SR_ERRORS
#define SR_BUSY (1u << 16)
#define CR_PROGRAM (1u << 0)
#define CR_ERASE (1u << 1)
#define CR_SECTOR_SHIFT 3
#define CR_WORDS (2u << 8) /* 32 bits at a time, which 2.7 V and more allow */
#define CR_START (1u << 16)
#define CR_LOCK (1u << 31)

#include "mct_flash_body.h"

static bool erase_sector(uint32_t sector) {
    MCT_REGISTER(CR) = CR_WORDS | CR_ERASE | sector << CR_SECTOR_SHIFT;
    MCT_REGISTER(CR) |= CR_START;
    return finished();
}

/* The unit of erasing is the slot, for its sectors may differ in size from the other's. */
bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t bytes) {
    (void)offset;
    (void)bytes;
    const uint32_t first = slot == 0 ? MCT_SLOT_0_SECTOR : MCT_SLOT_1_SECTOR;
    const uint32_t count = slot == 0 ? MCT_SLOT_0_SECTORS : MCT_SLOT_1_SECTORS;
    bool good = true;
    unlock();
    for (uint32_t i = count; i > 0 && good; i--) {
        good = erase_sector(first + i - 1u);
    }
    MCT_REGISTER(CR) = CR_LOCK;
    mct_cache_forget(slot_address(slot), MCT_SLOT_BYTES);
    return good;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const uint32_t to = slot_address(slot) + offset;
    bool good = true;
    unlock();
    MCT_REGISTER(CR) = CR_WORDS | CR_PROGRAM;
    for (uint32_t i = 0; i < count && good; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, sizeof word);
        MCT_REGISTER(to + i) = word;
        good = finished();
    }
    MCT_REGISTER(CR) = CR_LOCK;
    mct_cache_forget(to, count);
    return good;
}

#endif
