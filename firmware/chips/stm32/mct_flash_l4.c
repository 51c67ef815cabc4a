/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots in pages of the flash that have no code: RM0351, "Embedded Flash memory".
 *
 * Each 64 bits have eight more that correct one wrong bit and tell of two. A power cut within an
 * operation may leave them wrong: who reads such bits gets the NMI. For a slot this is no fault; what
 * was read has a wrong checksum of the store's, too. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32l4.h"

#define FLASH_ORIGIN 0x08000000u

#define KEYR (MCT_FLASH + 0x08u)
#define SR (MCT_FLASH + 0x10u)
#define CR (MCT_FLASH + 0x14u)
#define ECCR (MCT_FLASH + 0x18u)

#define ECCR_PLACE 0xFFFFFu /* bank and offset in it */
#define ECCR_SYSTEM (1u << 20)
#define ECCR_DETECTED (1u << 31)

#if MCT_SLOT_BYTES > 0

#define SR_BUSY (1u << 16)
#define SR_ERRORS 0x3FAu                 /* OPERR, PROGERR … FASTERR */
#define SR_CLEARED (SR_ERRORS | 0xC001u) /* RDERR, OPTVERR; EOP: done */
#define CR_PROGRAM (1u << 0)
#define CR_ERASE (1u << 1)
#define CR_PAGE_SHIFT 3
#define CR_BANK_2 (1u << 11)
#define CR_START (1u << 16)
#define CR_LOCK (1u << 31)

#define PAGE_BYTES 0x800u
#define BANK_PAGES 256u

_Static_assert(MCT_SLOT_ERASE_BYTES == PAGE_BYTES, "the flash erases pages of 2 KB");

#include "mct_flash_body.h"

static bool is_in_slot(uint32_t address) {
    return address - MCT_SLOT_0 < MCT_SLOT_BYTES || address - MCT_SLOT_1 < MCT_SLOT_BYTES;
}

static bool erase_page(uint32_t address) {
    const uint32_t page = (address - FLASH_ORIGIN) / PAGE_BYTES;
    const uint32_t bank = page < BANK_PAGES ? 0 : CR_BANK_2;
    MCT_REGISTER(CR) = bank | page % BANK_PAGES << CR_PAGE_SHIFT | CR_ERASE;
    MCT_REGISTER(CR) |= CR_START;
    return finished();
}

bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t bytes) {
    const uint32_t from = slot_address(slot) + offset;
    uint32_t left = bytes;
    bool good = true;
    unlock();
    while (left > 0 && good) {
        left -= PAGE_BYTES;
        good = erase_page(from + left);
    }
    MCT_REGISTER(CR) = CR_LOCK;
    mct_cache_forget(from, bytes);
    return good;
}

/* 64 bits at a time: the second word starts to program both. */
bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const uint32_t to = slot_address(slot) + offset;
    bool good = true;
    unlock();
    MCT_REGISTER(CR) = CR_PROGRAM;
    for (uint32_t i = 0; i < count && good; i += 8) {
        uint32_t words[2];
        memcpy(words, bytes + i, sizeof words);
        MCT_REGISTER(to + i) = words[0];
        MCT_REGISTER(to + i + 4u) = words[1];
        good = finished();
    }
    MCT_REGISTER(CR) = CR_LOCK;
    mct_cache_forget(to, count);
    return good;
}

#else

static bool is_in_slot(uint32_t address) {
    (void)address;
    return false;
}

#endif

void mct_chip_nmi(void) {
    const uint32_t status = MCT_REGISTER(ECCR);
    if ((status & ECCR_DETECTED) == 0 || (status & ECCR_SYSTEM) != 0 ||
        !is_in_slot(FLASH_ORIGIN + (status & ECCR_PLACE))) {
        mct_chip_restart();
    }
    MCT_REGISTER(ECCR) = ECCR_DETECTED; /* clears it */
}
