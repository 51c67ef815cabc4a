/* SPDX-License-Identifier: Apache-2.0 */
/* The RP2040 and the RP2350, whose clocks, pins, UARTs, USB and flash functions are alike; board.toml of a
 * board with the second defines RP2350. */
#ifndef MCT_RP2_H
#define MCT_RP2_H

#include "mct_board_config.h"
#include "mct_chip.h"

#ifdef MCT_RP2350
#include "mct_rp2350.h"
#else
#include "mct_rp2040.h"
#endif

/* Writes that set or clear bits of the register (2.1.2, 2.1.3). */
#define MCT_SET(address) MCT_REGISTER((address) + 0x2000u)
#define MCT_CLEAR(address) MCT_REGISTER((address) + 0x3000u)

/* The core and its peripherals at MCT_CLOCK_HZ, from the 12 MHz crystal. */
void mct_clock_start(void);

/* Starts the timer of microseconds, which USB needs, and the RP2040 to count cycles. */
void mct_timer_start(void);

/* Takes peripherals out of reset, or puts them there first: bits of RESETS. */
void mct_peripheral_on(uint32_t bits);
void mct_peripheral_restart(uint32_t bits);

/* Starts a PLL at 12 MHz * factor / first / second; reset: its bit of RESETS. 12 MHz * factor: 750 to
 * 1,600 MHz. */
void mct_pll_start(uint32_t pll, uint32_t reset, uint32_t factor, uint32_t first, uint32_t second);

/* The RP2350 reads its flash by the command that its ROM found, but at the core's clock divided by
 * MCT_FLASH_DIVISOR. */
void mct_flash_start(void);

/* A number that no other board has: the RP2350's own, or that of the flash chip of an RP2040. Only where the
 * line is USB. */
#define MCT_CHIP_NUMBER_BYTES 8u
void mct_chip_number(uint8_t number[MCT_CHIP_NUMBER_BYTES]);

/* Gives pins to UART0. */
void mct_pin_uart(uint32_t pin);

/* A function of the boot ROM by its two letters. */
uint32_t mct_rom_function(char first, char second);

#endif
