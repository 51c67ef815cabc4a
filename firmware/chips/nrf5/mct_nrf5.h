/* SPDX-License-Identifier: Apache-2.0 */
/* The nRF51 and nRF52 series, whose clocks, UART and flash controller are alike: nRF51 Series Reference
 * Manual 3.0, nRF52833 and nRF52840 Product Specifications. Pins: 32 * port + number, as board.toml has them. */
#ifndef MCT_NRF5_H
#define MCT_NRF5_H

#include "mct_chip.h"

#define MCT_NRF5_POWER 0x40000000u /* POWER and CLOCK share an address */
#define MCT_NRF5_NVMC 0x4001E000u

#define MCT_NRF5_GPIO(pin) (0x50000000u + 0x300u * ((pin) / 32u))

/* The crystal's oscillator, which the UART's baud rate needs. */
void mct_clock_start(void);

#endif
