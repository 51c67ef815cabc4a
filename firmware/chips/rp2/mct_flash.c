/* SPDX-License-Identifier: Apache-2.0 */
/* Two slots at the end of the flash, erased and written by the boot ROM: RP2040 2.8.3.1.3, "Flash Access
 * Functions"; RP2350 5.4.8. Meanwhile the flash cannot be read, so what calls the ROM runs on the stack. So does
 * what asks the flash chip for its number, which a USB port tells the host. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_rp2.h"

#ifdef MCT_USB_VENDOR
#define HAS_USB 1
#else
#define HAS_USB 0
#endif

/* The RP2350 has a number of its own, and its ROM reads the flash by several commands. */
#ifdef MCT_RP2350
#define HAS_NUMBER 0
#define READ_MODES 4u
#else
#define HAS_NUMBER HAS_USB
#define READ_MODES 0u
#endif

#if MCT_SLOT_BYTES > 0 || HAS_NUMBER || READ_MODES

#define XIP_BASE 0x10000000u
#define BOOT2_WORDS 64u /* of mct_boot2.c, where the flash begins */
#define BLOCK_BYTES 0x10000u
#define BLOCK_ERASE 0xD8u

typedef struct {
    void (*connect_internal_flash)(void);
    void (*flash_exit_xip)(void);
    void (*flash_range_erase)(uint32_t offset, uint32_t count, uint32_t block, uint8_t command);
    void (*flash_range_program)(uint32_t offset, const uint8_t *bytes, uint32_t count);
    void (*flash_flush_cache)(void);
#if READ_MODES
    void (*flash_select_xip_read_mode)(uint32_t mode, uint32_t divisor);
    uint32_t mode;
#else
    void (*boot2)(void); /* a copy in RAM: sets up the flash as after a reset */
#endif
    uint32_t offset;
    const uint8_t *bytes; /* NULL: erase */
    uint32_t count;       /* 0: change nothing */
    uint8_t *number;      /* not NULL: read it, too */
} flash_job;

/* link.ld: the first and the last byte of the section that the next function alone is in. */
extern const uint8_t mct_ramfunc_begin[], mct_ramfunc_end[];

#if HAS_NUMBER
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
    for (uint32_t i = 0; i < BEFORE_NUMBER + MCT_CHIP_NUMBER_BYTES; i++) {
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
#endif

/* Runs wherever it was copied to: calls nothing but pointers, refers to nothing but its argument. */
__attribute__((section(".ramfunc"), noinline, used)) static void run(const flash_job *job) {
    job->connect_internal_flash();
    job->flash_exit_xip();
#if HAS_NUMBER
    if (job->number != NULL) {
        read_number(job->number);
    }
#endif
    if (job->bytes != NULL) {
        job->flash_range_program(job->offset, job->bytes, job->count);
    } else if (job->count > 0) {
        job->flash_range_erase(job->offset, job->count, BLOCK_BYTES, BLOCK_ERASE);
    }
    job->flash_flush_cache(); /* also lets go of the chip select */
#if READ_MODES
    job->flash_select_xip_read_mode(job->mode, MCT_FLASH_DIVISOR);
#else
    job->boot2();
#endif
}

#if READ_MODES
/* As the ROM found it at the start, when it tried which commands the flash chip knows: the command that
 * reads is the lowest byte of M0_RCMD (12.14.6). */
static uint32_t read_mode(void) {
    static const uint8_t commands[READ_MODES] = {0x03, 0x0B, 0xBB, 0xEB};
    const uint32_t command = MCT_REGISTER(MCT_QMI + 0x14u) & 0xFFu;
    uint32_t mode = READ_MODES - 1u;
    while (mode > 0 && commands[mode] != command) {
        mode--;
    }
    return mode;
}
#endif

/* Lets what was copied to RAM be called: the compiler does not see that a call reads the copy, and
 * gcc -Os would leave it out. */
static uintptr_t code_in_ram(const uint32_t *copy) {
    __asm__ volatile("" : : "r"(copy) : "memory");
    return (uintptr_t)copy | 1u;
}

static void run_on_stack(uint32_t offset, const uint8_t *bytes, uint32_t count, uint8_t *number) {
#if !READ_MODES
    uint32_t boot2[BOOT2_WORDS];
    memcpy(boot2, (const void *)(uintptr_t)XIP_BASE, sizeof boot2);
#endif
    const flash_job job = {
        .connect_internal_flash = (void (*)(void))mct_rom_function('I', 'F'),
        .flash_exit_xip = (void (*)(void))mct_rom_function('E', 'X'),
        .flash_range_erase =
            (void (*)(uint32_t, uint32_t, uint32_t, uint8_t))mct_rom_function('R', 'E'),
        .flash_range_program =
            (void (*)(uint32_t, const uint8_t *, uint32_t))mct_rom_function('R', 'P'),
        .flash_flush_cache = (void (*)(void))mct_rom_function('F', 'C'),
#if READ_MODES
        .flash_select_xip_read_mode = (void (*)(uint32_t, uint32_t))mct_rom_function('X', 'M'),
        .mode = read_mode(),
#else
        .boot2 = (void (*)(void))code_in_ram(boot2),
#endif
        .offset = offset,
        .bytes = bytes,
        .count = count,
        .number = number,
    };
    uint32_t code[64]; /* link.ld asserts that this is enough */
    memcpy(code, mct_ramfunc_begin, (size_t)(mct_ramfunc_end - mct_ramfunc_begin));
    void (*const copied)(const flash_job *) = (void (*)(const flash_job *))code_in_ram(code);
    mct_synchronize();
    copied(&job);
}

#endif

#if READ_MODES

void mct_flash_start(void) {
    run_on_stack(0, NULL, 0, NULL);
}

#endif

#if HAS_NUMBER

void mct_chip_number(uint8_t number[MCT_CHIP_NUMBER_BYTES]) {
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
#if HAS_USB
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
