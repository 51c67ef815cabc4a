/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the STM32L475 and L476, from the internal 16 MHz oscillator: RM0351, "Reset and clock
 * control". The regulator's range 1, which all of them need, is that after a reset. */
#include "mct_board_config.h"
#include "mct_stm32l4.h"

#define RCC_CR (MCT_RCC + 0x00u)
#define RCC_CFGR (MCT_RCC + 0x08u)
#define RCC_PLLCFGR (MCT_RCC + 0x0Cu)

#define HSI_HZ 16000000u
#define MULTIPLIER (MCT_CLOCK_HZ / (HSI_HZ / 2u)) /* PLLN; PLLM is 1, PLLR is 2 */

/* Flash wait states in range 1: one more for each 16 MHz. */
#define WAIT_STATES ((MCT_CLOCK_HZ - 1u) / 16000000u)

_Static_assert(MCT_CLOCK_HZ % (HSI_HZ / 2u) == 0 && MULTIPLIER >= 8u && MULTIPLIER <= 10u,
               "the PLL gives 8 MHz times 8, 9 or 10, up to 80 MHz");

void mct_clock_start(void) {
    MCT_REGISTER(RCC_CR) |= 1u << 8; /* HSION */
    mct_wait_for(RCC_CR, 1u << 10);
    MCT_REGISTER(MCT_FLASH_ACR) = (MCT_REGISTER(MCT_FLASH_ACR) & ~7u) | WAIT_STATES;
    (void)MCT_REGISTER(MCT_FLASH_ACR);
    MCT_REGISTER(RCC_PLLCFGR) = 1u << 24 | MULTIPLIER << 8 | 2u; /* PLLREN, PLLN, of HSI16 */
    MCT_REGISTER(RCC_CR) |= 1u << 24;                            /* PLLON */
    mct_wait_for(RCC_CR, 1u << 25);
    MCT_REGISTER(RCC_CFGR) = 3u; /* run from the PLL; no bus is divided */
    mct_wait_for(RCC_CFGR, 3u << 2);
}

/* Ports A to H. */
void mct_pin_alternate(char port, uint32_t pin, uint32_t function) {
    const uint32_t number = (uint32_t)(port - 'A');
    mct_peripheral_on(MCT_RCC_AHB2ENR, number);
    mct_port_alternate(0x48000000u + 0x400u * number, pin, function);
}

void mct_rom_first(void) {
    mct_peripheral_on(MCT_RCC_APB2ENR, 0);
    MCT_REGISTER(0x40010000u) = 1; /* SYSCFG_MEMRMP */
}
