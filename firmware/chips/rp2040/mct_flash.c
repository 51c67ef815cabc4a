/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots at the end of the flash, erased and written by the boot ROM: 2.8.3.1.3, "Flash Access
 * Functions". Meanwhile the flash cannot be read, so what calls the ROM runs on the stack. So does
 * what asks the flash chip for its number, which a USB port tells the host. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_rp2040.h"

#ifdef MCT_USB_VENDOR
#define HAS_NUMBER 1
#else
#define HAS_NUMBER 0
#endif

#if MCT_SLOT_BYTES > 0 || HAS_NUMBER

#define XIP_BASE 0x10000000u
#define BLOCK_BYTES 0x10000u
#define BLOCK_ERASE 0xD8u

typedef struct {
    void (*connect_internal_flash)(void);
    void (*flash_exit_xip)(void);
    void (*flash_range_erase)(uint32_t offset, uint32_t count, uint32_t block, uint8_t command);
    void (*flash_range_program)(uint32_t offset, const uint8_t *bytes, uint32_t count);
    void (*flash_flush_cache)(void);
    uint32_t offset;
    const uint8_t *bytes; /* NULL: erase */
    uint32_t count;
    uint8_t *number; /* not NULL: read it, and nothing else */
} flash_job;

/* link.ld: the first and the last byte of the section that the next function alone is in. */
extern const uint8_t mct_ramfunc_begin[], mct_ramfunc_end[];

#define SS_CTRL 0x4001800Cu /* of the flash's select line (2.19.6.2) */
#define SS_OVER (3u << 8)
#define SS_LOW (2u << 8)
#define SSI_STATUS (MCT_SSI + 0x28u)
#define SSI_DATA (MCT_SSI + 0x60u)
#define HAS_ANSWER (1u << 3)
#define READ_NUMBER 0x4Bu /* then four bytes without meaning; W25Q16JV, 8.2.31 */
#define BEFORE_NUMBER 5u

/* Bytes to and from the flash chip, as the ROM left the SSI: a byte in a frame. */
static inline __attribute__((always_inline)) void read_number(uint8_t *number) {
    const uint32_t select = MCT_REGISTER(SS_CTRL) & ~SS_OVER;
    MCT_REGISTER(SS_CTRL) = select | SS_LOW;
    for (uint32_t i = 0; i < BEFORE_NUMBER + MCT_FLASH_NUMBER_BYTES; i++) {
        __asm__("" : "+r"(i)); /* unrolled, it would not fit where it is copied to */
        MCT_REGISTER(SSI_DATA) = i == 0 ? READ_NUMBER : 0u;
        while ((MCT_REGISTER(SSI_STATUS) & HAS_ANSWER) == 0) {
        }
        const uint8_t answer = (uint8_t)MCT_REGISTER(SSI_DATA);
        if (i >= BEFORE_NUMBER) {
            number[i - BEFORE_NUMBER] = answer;
        }
    }
    MCT_REGISTER(SS_CTRL) = select | SS_OVER; /* high: the command ends */
}

/* Runs wherever it was copied to: calls nothing but pointers, refers to nothing but its argument. */
__attribute__((section(".ramfunc"), noinline, used)) static void run(const flash_job *job) {
    job->connect_internal_flash();
    job->flash_exit_xip();
    if (HAS_NUMBER && job->number != NULL) {
        read_number(job->number);
    } else if (job->bytes == NULL) {
        job->flash_range_erase(job->offset, job->count, BLOCK_BYTES, BLOCK_ERASE);
    } else {
        job->flash_range_program(job->offset, job->bytes, job->count);
    }
    job->flash_flush_cache(); /* also lets go of the chip select */
    MCT_REGISTER(MCT_SSI + 0x08u) = 0;
    MCT_REGISTER(MCT_SSI + 0x14u) = MCT_SSI_BAUDR;
    MCT_REGISTER(MCT_SSI + 0x00u) = MCT_SSI_CTRLR0;
    MCT_REGISTER(MCT_SSI + 0x04u) = 0;
    MCT_REGISTER(MCT_SSI + 0xF4u) = MCT_SSI_SPI_CTRLR0;
    MCT_REGISTER(MCT_SSI + 0x08u) = 1;
}

static void run_on_stack(uint32_t offset, const uint8_t *bytes, uint32_t count, uint8_t *number) {
    const flash_job job = {
        .connect_internal_flash = (void (*)(void))mct_rom_function('I', 'F'),
        .flash_exit_xip = (void (*)(void))mct_rom_function('E', 'X'),
        .flash_range_erase =
            (void (*)(uint32_t, uint32_t, uint32_t, uint8_t))mct_rom_function('R', 'E'),
        .flash_range_program =
            (void (*)(uint32_t, const uint8_t *, uint32_t))mct_rom_function('R', 'P'),
        .flash_flush_cache = (void (*)(void))mct_rom_function('F', 'C'),
        .offset = offset,
        .bytes = bytes,
        .count = count,
        .number = number,
    };
    uint32_t code[64]; /* link.ld asserts that this is enough */
    memcpy(code, mct_ramfunc_begin, (size_t)(mct_ramfunc_end - mct_ramfunc_begin));
    /* the compiler does not see that the call reads it: without this, gcc -Os leaves the copy out */
    __asm__ volatile("" : : "r"(code) : "memory");
    mct_synchronize();
    void (*const copied)(const flash_job *) = (void (*)(const flash_job *))((uintptr_t)code | 1u);
    copied(&job);
}

#endif

#if HAS_NUMBER

void mct_flash_number(uint8_t number[MCT_FLASH_NUMBER_BYTES]) {
    run_on_stack(0, NULL, 0, number);
}

#endif

#if MCT_SLOT_BYTES > 0

static uint32_t slot_address(int32_t slot) {
    return slot == 0 ? MCT_SLOT_0 : MCT_SLOT_1;
}

const uint8_t *mct_board_slot(int32_t slot) {
    return (const uint8_t *)(uintptr_t)slot_address(slot);
}

/* The ROM reports no errors; whoever reads back finds them. */
bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t count) {
    const uint32_t from = slot_address(slot) - XIP_BASE + offset;
    while (count > 0) { /* by whole blocks where it can be */
        const bool is_block = (from + count) % BLOCK_BYTES == 0 && count >= BLOCK_BYTES;
        const uint32_t step = is_block ? BLOCK_BYTES : MCT_SLOT_ERASE_BYTES;
        count -= step;
        run_on_stack(from + count, NULL, step, NULL);
#if HAS_NUMBER
        mct_between_nodes(); /* a block takes up to 2 s; W25Q16JV, 9.6 */
#endif
    }
    return true;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    run_on_stack(slot_address(slot) - XIP_BASE + offset, bytes, count, NULL);
    return true;
}

#endif
