/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_rp2040.h"

#define PSM_WDSEL 0x40010008u
#define WATCHDOG_CTRL 0x40058000u
#define WATCHDOG_SCRATCH4 0x4005801Cu

/* Tables and functions of the boot ROM: 2.8.3, "Bootrom Contents". */
#define ROM_FUNCTION_TABLE 0x00000014u
#define ROM_TABLE_LOOKUP 0x00000018u

/* The compiler must not see an address this low: it takes it for an offset to a null pointer. */
static uint32_t rom_halfword(uint32_t address) {
    __asm__("" : "+r"(address));
    return *(const volatile uint16_t *)(uintptr_t)address;
}

uint32_t mct_rom_function(char first, char second) {
    typedef uint32_t lookup(uint32_t table, uint32_t code);
    lookup *const find = (lookup *)(uintptr_t)rom_halfword(ROM_TABLE_LOOKUP);
    const uint32_t code = (uint32_t)(uint8_t)second << 8 | (uint8_t)first;
    return find(rom_halfword(ROM_FUNCTION_TABLE), code);
}

void mct_chip_boot(void) {
}

/* The core's own reset leaves the peripherals as they are; the watchdog's resets all but the
 * oscillators. (2.13, 4.7) */
void mct_chip_restart(void) {
    MCT_REGISTER(WATCHDOG_SCRATCH4) = 0; /* no address to start from instead of the flash */
    MCT_REGISTER(PSM_WDSEL) = 0x0001FFFCu;
    MCT_SET(WATCHDOG_CTRL) = 1u << 31; /* TRIGGER */
    for (;;) {
    }
}

/* The drive for .uf2 files and PICOBOOT on USB. */
bool mct_board_bootloader(void) {
    typedef void reset_to_usb_boot(uint32_t activity_pins, uint32_t disabled_interfaces);
    reset_to_usb_boot *const reset = (reset_to_usb_boot *)mct_rom_function('U', 'B');
    mct_uart_flush();
    reset(0, 0);
    return false;
}
