/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_rp2.h"

#define PSM_WDSEL (MCT_PSM + 0x08u)
#define WATCHDOG_CTRL MCT_WATCHDOG
#define WATCHDOG_SCRATCH4 (MCT_WATCHDOG + 0x1Cu)

/* The compiler must not see an address this low: it takes it for an offset to a null pointer. */
static uint32_t rom_halfword(uint32_t address) {
    __asm__("" : "+r"(address));
    return *(const volatile uint16_t *)(uintptr_t)address;
}

#ifdef MCT_RP2350
/* Functions of the boot ROM: 5.4, "Bootrom APIs". */
#define ROM_TABLE_LOOKUP 0x16u
#define FOR_SECURE_ARM 4u
#define REBOOT_TO_BOOTSEL 0x102u /* and without coming back */

uint32_t mct_rom_function(char first, char second) {
    typedef uint32_t lookup(uint32_t code, uint32_t mask);
    lookup *const find = (lookup *)(uintptr_t)rom_halfword(ROM_TABLE_LOOKUP);
    return find((uint32_t)(uint8_t)second << 8 | (uint8_t)first, FOR_SECURE_ARM);
}

static void enter_bootloader(void) {
    typedef int32_t reboot(uint32_t flags, uint32_t delay_ms, uint32_t pin, uint32_t interfaces);
    reboot *const start = (reboot *)(uintptr_t)mct_rom_function('R', 'B');
    (void)start(REBOOT_TO_BOOTSEL, 1, 0, 0);
}
#else
/* Tables and functions of the boot ROM: 2.8.3, "Bootrom Contents". */
#define ROM_FUNCTION_TABLE 0x14u
#define ROM_TABLE_LOOKUP 0x18u

uint32_t mct_rom_function(char first, char second) {
    typedef uint32_t lookup(uint32_t table, uint32_t code);
    lookup *const find = (lookup *)(uintptr_t)rom_halfword(ROM_TABLE_LOOKUP);
    const uint32_t code = (uint32_t)(uint8_t)second << 8 | (uint8_t)first;
    return find(rom_halfword(ROM_FUNCTION_TABLE), code);
}

static void enter_bootloader(void) {
    typedef void reset_to_usb_boot(uint32_t activity_pins, uint32_t disabled_interfaces);
    reset_to_usb_boot *const reset = (reset_to_usb_boot *)(uintptr_t)mct_rom_function('U', 'B');
    reset(0, 0);
}
#endif

#ifdef MCT_RP2350
void mct_chip_boot(void) {
}
#else
#define VTOR 0xE000ED08u

extern const uint32_t mct_vectors[];

/* mct_boot2.c leaves the boot ROM's table in place: it has no byte to spare. */
void mct_chip_boot(void) {
    MCT_REGISTER(VTOR) = (uint32_t)(uintptr_t)mct_vectors;
}
#endif

/* The core's own reset leaves the peripherals as they are; the watchdog's resets all but the
 * oscillators. */
void mct_chip_restart(void) {
    MCT_REGISTER(WATCHDOG_SCRATCH4) = 0; /* no address to start from instead of the flash */
    MCT_REGISTER(PSM_WDSEL) = MCT_PSM_ALL;
    MCT_SET(WATCHDOG_CTRL) = 1u << 31; /* TRIGGER */
    for (;;) {
    }
}

/* The drive for .uf2 files and PICOBOOT on USB. */
bool mct_board_bootloader(void) {
    mct_uart_flush();
    enter_bootloader();
    return false;
}
