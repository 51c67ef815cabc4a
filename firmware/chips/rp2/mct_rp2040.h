/* SPDX-License-Identifier: Apache-2.0 */
/* The RP2040: chapters and names are those of the RP2040 datasheet. */
#ifndef MCT_RP2040_H
#define MCT_RP2040_H

/* Where peripherals are (2.2). */
#define MCT_CLOCKS 0x40008000u
#define MCT_CLK_USB_CTRL (MCT_CLOCKS + 0x54u)
#define MCT_RESETS 0x4000C000u
#define MCT_PSM 0x40010000u
#define MCT_IO_BANK0 0x40014000u
#define MCT_PADS_BANK0 0x4001C000u
#define MCT_XOSC 0x40024000u
#define MCT_PLL_SYS 0x40028000u
#define MCT_PLL_USB 0x4002C000u
#define MCT_UART0 0x40034000u
#define MCT_TIMER 0x40054000u
#define MCT_TIMER_RAWL (MCT_TIMER + 0x28u)
#define MCT_WATCHDOG 0x40058000u

/* What a restart resets: all but the oscillators (2.13). */
#define MCT_PSM_ALL 0x0001FFFCu

/* 125 MHz: 12 MHz * 125 / 6 / 2. */
#define MCT_CLOCK_MHZ 125u
#define MCT_PLL_FIRST 6u

/* Bits of RESETS (2.14). */
#define MCT_RESETS_IO_BANK0 (1u << 5)
#define MCT_RESETS_PADS_BANK0 (1u << 8)
#define MCT_RESETS_PLL_SYS (1u << 12)
#define MCT_RESETS_PLL_USB (1u << 13)
#define MCT_RESETS_TIMER (1u << 21)
#define MCT_RESETS_UART0 (1u << 22)
#define MCT_RESETS_USB (1u << 24)

/* What reads the flash as memory (4.10, "SSI"); mct_boot2.c alone sets it up. */
#define MCT_SSI 0x18000000u

#endif
