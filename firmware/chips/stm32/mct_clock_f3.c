/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the STM32F303xD and xE, whose PLL takes the internal 8 MHz oscillator undivided: RM0316,
 * "Reset and clock control". */
#include "mct_board_config.h"
#include "mct_stm32f3.h"

#define RCC_CR (MCT_RCC + 0x00u)
#define RCC_CFGR (MCT_RCC + 0x04u)

#define HSI_HZ 8000000u
#define MULTIPLIER (MCT_CLOCK_HZ / HSI_HZ)

/* Flash wait states: one more for each 24 MHz. The prefetch buffer is on after a reset. */
#define WAIT_STATES ((MCT_CLOCK_HZ - 1u) / 24000000u)

_Static_assert(MCT_CLOCK_HZ % HSI_HZ == 0 && MULTIPLIER >= 2u && MULTIPLIER <= 9u,
               "the PLL multiplies 8 MHz by 2 to 9, up to 72 MHz");

void mct_clock_start(void) {
    MCT_REGISTER(MCT_FLASH_ACR) = (MCT_REGISTER(MCT_FLASH_ACR) & ~7u) | WAIT_STATES;
    (void)MCT_REGISTER(MCT_FLASH_ACR);
    const uint32_t pll = (MULTIPLIER - 2u) << 18 | 1u << 15; /* of HSI / PREDIV, which is 1 */
    const uint32_t setting = pll | 4u << 8;                  /* APB1 / 2 */
    MCT_REGISTER(RCC_CFGR) = setting;
    MCT_REGISTER(RCC_CR) |= 1u << 24; /* PLLON */
    mct_wait_for(RCC_CR, 1u << 25);
    MCT_REGISTER(RCC_CFGR) = setting | 2u; /* run from the PLL */
    mct_wait_for(RCC_CFGR, 2u << 2);
}

/* Ports A to G. */
void mct_pin_alternate(char port, uint32_t pin, uint32_t function) {
    const uint32_t number = (uint32_t)(port - 'A');
    mct_peripheral_on(MCT_RCC_AHBENR, 17u + number);
    mct_port_alternate(0x48000000u + 0x400u * number, pin, function);
}

void mct_rom_first(void) {
    mct_peripheral_on(MCT_RCC_APB2ENR, 0);
    MCT_REGISTER(0x40010000u) = 1; /* SYSCFG_CFGR1 */
}
