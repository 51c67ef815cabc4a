/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the STM32F4 and F7, of a multiple of 1 MHz, from the internal 16 MHz oscillator. */
#include "mct_board_config.h"
#include "mct_stm32.h"

#define RCC_CR (MCT_RCC + 0x00u)
#define RCC_PLLCFGR (MCT_RCC + 0x04u)
#define RCC_CFGR (MCT_RCC + 0x08u)
#define PWR_CR 0x40007000u
#define PWR_CSR 0x40007004u

/* Above this the regulator's over-drive is needed; chips that have none do not run so fast. */
#define OVERDRIVE_HZ 168000000u

/* The PLL's oscillator runs at 192 MHz at least. */
#define PLL_DIVISOR (MCT_CLOCK_HZ < 96000000u ? 4u : 2u)

/* Flash wait states at 2.7 … 3.6 V: one more for each 30 MHz. */
#define WAIT_STATES ((MCT_CLOCK_HZ - 1u) / 30000000u)

static void start_overdrive(void) {
    mct_peripheral_on(MCT_RCC_APB1ENR, 28);
    MCT_REGISTER(PWR_CR) |= 1u << 16; /* ODEN */
    mct_wait_for(PWR_CSR, 1u << 16);
    MCT_REGISTER(PWR_CR) |= 1u << 17; /* ODSWEN */
    mct_wait_for(PWR_CSR, 1u << 17);
}

void mct_clock_start(void) {
    /* 16 MHz / 8 * n / divisor; bits 24 … 31 as after reset */
    const uint32_t n = MCT_CLOCK_HZ / 2000000u * PLL_DIVISOR;
    MCT_REGISTER(RCC_PLLCFGR) = 0x24000000u | (PLL_DIVISOR / 2u - 1u) << 16 | n << 6 | 8u;
    MCT_REGISTER(RCC_CR) |= 1u << 24; /* PLLON */
    mct_wait_for(RCC_CR, 1u << 25);
    if (MCT_CLOCK_HZ > OVERDRIVE_HZ) {
        start_overdrive();
    }
    MCT_REGISTER(MCT_FLASH_ACR) = (MCT_REGISTER(MCT_FLASH_ACR) & ~0xFu) | WAIT_STATES;
    (void)MCT_REGISTER(MCT_FLASH_ACR);
    const uint32_t buses = 4u << 13 | 5u << 10; /* APB2 / 2, APB1 / 4 */
    MCT_REGISTER(RCC_CFGR) = buses;
    MCT_REGISTER(RCC_CFGR) = buses | 2u; /* run from the PLL */
    mct_wait_for(RCC_CFGR, 2u << 2);
}

void mct_pin_alternate(char port, uint32_t pin, uint32_t function) {
    const uint32_t number = (uint32_t)(port - 'A');
    mct_peripheral_on(MCT_RCC_AHB1ENR, number);
    mct_port_alternate(0x40020000u + 0x400u * number, pin, function);
}

void mct_rom_first(void) {
    mct_peripheral_on(MCT_RCC_APB2ENR, 14);
    MCT_REGISTER(0x40013800u) = 1; /* SYSCFG_MEMRMP */
}
