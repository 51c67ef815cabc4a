/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the STM32H743, from the internal 64 MHz oscillator, at VOS1 and with the LDO: RM0433,
 * "Power control", "Reset and clock control", "Embedded Flash memory". 400 MHz is what all revisions of
 * the chip bear; 480 MHz need VOS0, which revision Y does not have. */
#include "mct_board_config.h"
#include "mct_stm32h7.h"

#define PWR 0x58024800u
#define PWR_CSR1 (PWR + 0x04u)
#define PWR_CR3 (PWR + 0x0Cu)
#define PWR_D3CR (PWR + 0x18u)

#define RCC_CR (MCT_RCC + 0x00u)
#define RCC_CFGR (MCT_RCC + 0x10u)
#define RCC_D1CFGR (MCT_RCC + 0x18u)
#define RCC_D2CFGR (MCT_RCC + 0x1Cu)
#define RCC_D3CFGR (MCT_RCC + 0x20u)
#define RCC_PLLCKSELR (MCT_RCC + 0x28u)
#define RCC_PLLCFGR (MCT_RCC + 0x2Cu)
#define RCC_PLL1DIVR (MCT_RCC + 0x30u)

/* The PLL gets 64 MHz / 10; half of what its oscillator does is the core's. */
#define DIVISOR 10u
#define HALF_INPUT_HZ 3200000u
#define MULTIPLIER (MCT_CLOCK_HZ / HALF_INPUT_HZ)

_Static_assert(MCT_CLOCK_HZ % HALF_INPUT_HZ == 0 && MULTIPLIER >= 30u && MULTIPLIER <= 125u,
               "the PLL gives a multiple of 3.2 MHz, from 96 to 400 MHz");

/* Flash at half of the core's clock and VOS1, as at 210 MHz: two wait states, WRHIGHFREQ 2. */
#define FLASH_WAITS (2u << 4 | 2u)

/* Which supply the chip has must be said once after power came, and before the voltage is set. */
static void set_voltage(void) {
    const uint32_t supply = MCT_REGISTER(PWR_CR3);
    if ((supply & 1u << 2) != 0) {                        /* SCUEN: not said yet */
        MCT_REGISTER(PWR_CR3) = (supply & ~7u) | 1u << 1; /* LDOEN */
    }
    mct_wait_for(PWR_CSR1, 1u << 13);  /* ACTVOSRDY */
    MCT_REGISTER(PWR_D3CR) = 3u << 14; /* VOS1 */
    mct_wait_for(PWR_D3CR, 1u << 13);  /* VOSRDY */
}

void mct_clock_start(void) {
    set_voltage();
    MCT_REGISTER(RCC_PLLCKSELR) = (MCT_REGISTER(RCC_PLLCKSELR) & ~0x3F3u) | DIVISOR << 4; /* HSI */
    MCT_REGISTER(RCC_PLL1DIVR) = 1u << 24 | 1u << 16 | 1u << 9 | (MULTIPLIER - 1u);       /* P: 2 */
    MCT_REGISTER(RCC_PLLCFGR) = 1u << 16 | 2u << 2; /* DIVP1EN; 4 to 8 MHz; the wide oscillator */
    MCT_REGISTER(RCC_CR) |= 1u << 24;               /* PLL1ON */
    mct_wait_for(RCC_CR, 1u << 25);
    MCT_REGISTER(MCT_FLASH_ACR) = FLASH_WAITS;
    (void)MCT_REGISTER(MCT_FLASH_ACR);
    MCT_REGISTER(RCC_D1CFGR) = 4u << 4 | 8u; /* AXI and AHB / 2, APB3 / 2 */
    MCT_REGISTER(RCC_D2CFGR) = 4u << 8 | 4u << 4;
    MCT_REGISTER(RCC_D3CFGR) = 4u << 4;
    MCT_REGISTER(RCC_CFGR) = 3u; /* run from the PLL */
    mct_wait_for(RCC_CFGR, 3u << 3);
}

/* Ports A to K. */
void mct_pin_alternate(char port, uint32_t pin, uint32_t function) {
    const uint32_t number = (uint32_t)(port - 'A');
    mct_peripheral_on(MCT_RCC_AHB4ENR, number);
    mct_port_alternate(0x58020000u + 0x400u * number, pin, function);
}

/* This chip lets nothing lie at address 0: the bootloader finds its vectors by VTOR. */
void mct_rom_first(void) {
}
