/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots in sectors of the flash that have no code: RM0433, "Embedded Flash memory".
 *
 * Two banks of eight sectors. 256 bits are programmed at once, and only once after an erase, because ten
 * more bits tell of errors in them. A power cut within an operation may leave these wrong: who reads
 * such bits gets a bus fault, unless the guard is on. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32h7.h"

#if MCT_SLOT_BYTES > 0

#define BANK_2_ORIGIN 0x08100000u
#define BANK_SECTORS 8u
#define BANK_2 0x100u /* its registers, behind those of the first */

#define KEYR 0x04u
#define CR 0x0Cu
#define SR 0x10u
#define CCR 0x14u

#define SR_BUSY 7u            /* BSY, WBNE, QW */
#define SR_ERRORS 0x006E0000u /* WRPERR, PGSERR, STRBERR, INCERR, OPERR */
#define CCR_ALL 0x0FEF0000u
#define CR_LOCK (1u << 0)
#define CR_PROGRAM (1u << 1)
#define CR_ERASE (1u << 2)
#define CR_WIDE (3u << 4) /* 64 bits at a time, which 2.7 V and more allow */
#define CR_START (1u << 7)
#define CR_SECTOR_SHIFT 8

#define WORD_BYTES 32u

#define SCB_CCR 0xE000ED14u
#define SCB_CCR_IGNORE (1u << 8) /* BFHFNMIGN */

static uint32_t slot_address(int32_t slot) {
    return slot == 0 ? MCT_SLOT_0 : MCT_SLOT_1;
}

const uint8_t *mct_board_slot(int32_t slot) {
    return (const uint8_t *)(uintptr_t)slot_address(slot);
}

/* A bus fault is passed over only while all faults are masked: DDI 0403, B3.2.8. */
void mct_board_slots_guard(bool on) {
    if (on) {
        __asm__ volatile("cpsid f" ::: "memory");
        MCT_REGISTER(SCB_CCR) |= SCB_CCR_IGNORE;
        mct_synchronize();
    } else {
        mct_synchronize();
        MCT_REGISTER(SCB_CCR) &= ~SCB_CCR_IGNORE;
        __asm__ volatile("cpsie f" ::: "memory");
    }
}

/* Keys to a bank that is open already would shut it until the next reset. */
static void unlock(uint32_t bank) {
    if ((MCT_REGISTER(bank + CR) & CR_LOCK) != 0) {
        MCT_REGISTER(bank + KEYR) = 0x45670123u;
        MCT_REGISTER(bank + KEYR) = 0xCDEF89ABu;
    }
    MCT_REGISTER(bank + CCR) = CCR_ALL;
}

static bool finished(uint32_t bank) {
    mct_synchronize();
    while ((MCT_REGISTER(bank + SR) & SR_BUSY) != 0) {
    }
    return (MCT_REGISTER(bank + SR) & SR_ERRORS) == 0;
}

static bool erase_sector(uint32_t sector) {
    const uint32_t bank = MCT_FLASH + (sector < BANK_SECTORS ? 0 : BANK_2);
    const uint32_t erase = CR_WIDE | CR_ERASE | sector % BANK_SECTORS << CR_SECTOR_SHIFT;
    unlock(bank);
    MCT_REGISTER(bank + CR) = erase;
    MCT_REGISTER(bank + CR) = erase | CR_START;
    const bool good = finished(bank);
    MCT_REGISTER(bank + CR) = CR_LOCK;
    return good;
}

/* The unit of erasing is the slot, for its sectors may differ in number from the other's. */
bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t bytes) {
    (void)offset;
    (void)bytes;
    const uint32_t first = slot == 0 ? MCT_SLOT_0_SECTOR : MCT_SLOT_1_SECTOR;
    const uint32_t count = slot == 0 ? MCT_SLOT_0_SECTORS : MCT_SLOT_1_SECTORS;
    bool good = true;
    for (uint32_t i = count; i > 0 && good; i--) {
        good = erase_sector(first + i - 1u);
    }
    mct_cache_forget(slot_address(slot), MCT_SLOT_BYTES);
    return good;
}

static bool write_word(uint32_t to, const uint8_t *bytes) {
    const uint32_t bank = MCT_FLASH + (to < BANK_2_ORIGIN ? 0 : BANK_2);
    unlock(bank);
    MCT_REGISTER(bank + CR) = CR_WIDE | CR_PROGRAM;
    mct_synchronize();
    for (uint32_t i = 0; i < WORD_BYTES; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, sizeof word);
        MCT_REGISTER(to + i) = word;
    }
    const bool good = finished(bank);
    MCT_REGISTER(bank + CR) = CR_LOCK;
    return good;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const uint32_t to = slot_address(slot) + offset;
    bool good = true;
    for (uint32_t i = 0; i < count && good; i += WORD_BYTES) {
        good = write_word(to + i, bytes + i);
    }
    mct_cache_forget(to, count);
    return good;
}

#endif
