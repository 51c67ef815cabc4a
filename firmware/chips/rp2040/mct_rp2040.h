/* SPDX-License-Identifier: Apache-2.0 */
/* The RP2040: chapters and names are those of the RP2040 datasheet. */
#ifndef MCT_RP2040_H
#define MCT_RP2040_H

#include "mct_chip.h"

/* Writes that set or clear bits of the register (2.1.2). */
#define MCT_SET(address) MCT_REGISTER((address) + 0x2000u)
#define MCT_CLEAR(address) MCT_REGISTER((address) + 0x3000u)

/* Bits of RESETS (2.14). */
#define MCT_RESETS_IO_BANK0 (1u << 5)
#define MCT_RESETS_PADS_BANK0 (1u << 8)
#define MCT_RESETS_PLL_SYS (1u << 12)
#define MCT_RESETS_PLL_USB (1u << 13)
#define MCT_RESETS_TIMER (1u << 21)
#define MCT_RESETS_UART0 (1u << 22)
#define MCT_RESETS_USB (1u << 24)

/* The flash as memory: command 03h, 24 address bits, one data line, which every flash chip knows. The
 * clock is a quarter of the core's: 31 MHz, and the slowest usual chips allow 50. mct_boot2.c and mct_flash.c
 * set it up. (4.10, "SSI") */
#define MCT_SSI 0x18000000u
#define MCT_SSI_CTRLR0 0x001F0300u     /* 32 bits in a frame; command, address, then read */
#define MCT_SSI_SPI_CTRLR0 0x03000218u /* command 03h of 8 bits, 24 bits of address */
#define MCT_SSI_BAUDR 4u

/* The core and its peripherals at MCT_CLOCK_HZ, 125 MHz, from the 12 MHz crystal. */
void mct_clock_start(void);

/* Takes peripherals out of reset, or puts them there first: bits of RESETS. */
void mct_peripheral_on(uint32_t bits);
void mct_peripheral_restart(uint32_t bits);

/* Starts a PLL at 12 MHz * factor / first / second; reset: its bit of RESETS. 12 MHz * factor: 750 to
 * 1,600 MHz. (2.18) */
void mct_pll_start(uint32_t pll, uint32_t reset, uint32_t factor, uint32_t first, uint32_t second);

/* The flash chip's number, which no other has. Only where the line is USB. */
#define MCT_FLASH_NUMBER_BYTES 8u
void mct_flash_number(uint8_t number[MCT_FLASH_NUMBER_BYTES]);

/* Gives pins to UART0. */
void mct_pin_uart(uint32_t pin);

/* A function of the boot ROM by its two letters (2.8.3). */
uint32_t mct_rom_function(char first, char second);

#endif
