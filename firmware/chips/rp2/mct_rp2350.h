/* SPDX-License-Identifier: Apache-2.0 */
/* The RP2350: chapters and names are those of the RP2350 datasheet. */
#ifndef MCT_RP2350_H
#define MCT_RP2350_H

/* Where peripherals are (2.2). */
#define MCT_CLOCKS 0x40010000u
#define MCT_CLK_USB_CTRL (MCT_CLOCKS + 0x60u)
#define MCT_PSM 0x40018000u
#define MCT_RESETS 0x40020000u
#define MCT_IO_BANK0 0x40028000u
#define MCT_PADS_BANK0 0x40038000u
#define MCT_XOSC 0x40048000u
#define MCT_PLL_SYS 0x40050000u
#define MCT_PLL_USB 0x40058000u
#define MCT_UART0 0x40070000u
#define MCT_TIMER 0x400B0000u
#define MCT_TIMER_RAWL (MCT_TIMER + 0x28u)
#define MCT_QMI 0x400D0000u
#define MCT_WATCHDOG 0x400D8000u
#define MCT_TICKS 0x40108000u

/* What a restart resets: all but the oscillators (7.4). */
#define MCT_PSM_ALL 0x01FFFFF3u

/* 150 MHz: 12 MHz * 125 / 5 / 2. */
#define MCT_CLOCK_MHZ 150u
#define MCT_PLL_FIRST 5u

/* Bits of RESETS (7.5). */
#define MCT_RESETS_IO_BANK0 (1u << 6)
#define MCT_RESETS_PADS_BANK0 (1u << 9)
#define MCT_RESETS_PLL_SYS (1u << 14)
#define MCT_RESETS_PLL_USB (1u << 15)
#define MCT_RESETS_TIMER (1u << 23)
#define MCT_RESETS_UART0 (1u << 26)
#define MCT_RESETS_USB (1u << 28)

#endif
