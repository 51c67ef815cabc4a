/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_rp2.h"

#define CLK_REF_CTRL (MCT_CLOCKS + 0x30u)
#define CLK_REF_SELECTED (MCT_CLOCKS + 0x38u)
#define CLK_SYS_CTRL (MCT_CLOCKS + 0x3Cu)
#define CLK_SYS_SELECTED (MCT_CLOCKS + 0x44u)
#define CLK_PERI_CTRL (MCT_CLOCKS + 0x48u)
#define RESETS_RESET MCT_RESETS
#define RESETS_DONE (MCT_RESETS + 0x08u)
#define XOSC_CTRL MCT_XOSC
#define XOSC_STATUS (MCT_XOSC + 0x04u)
#define XOSC_STARTUP (MCT_XOSC + 0x0Cu)
#define PLL_CS 0x0u
#define PLL_PWR 0x4u
#define PLL_FBDIV_INT 0x8u
#define PLL_PRIM 0xCu

_Static_assert(MCT_CLOCK_HZ == MCT_CLOCK_MHZ * 1000000u,
               "mct_clock.c sets one clock for each chip");

/* Waits for any bit of the mask; nothing works without, so for ever. */
static void wait_for(uint32_t address, uint32_t mask) {
    while ((MCT_REGISTER(address) & mask) == 0) {
    }
}

void mct_peripheral_on(uint32_t bits) {
    MCT_CLEAR(RESETS_RESET) = bits;
    while ((MCT_REGISTER(RESETS_DONE) & bits) != bits) {
    }
}

void mct_peripheral_restart(uint32_t bits) {
    MCT_SET(RESETS_RESET) = bits;
    mct_peripheral_on(bits);
}

static void start_crystal(void) {
    MCT_REGISTER(XOSC_STARTUP) = 47; /* 1 ms, in 256 crystal periods */
    MCT_REGISTER(XOSC_CTRL) = 0xFABu << 12 | 0xAA0u;
    wait_for(XOSC_STATUS, 1u << 31);
}

void mct_pll_start(uint32_t pll, uint32_t reset, uint32_t factor, uint32_t first, uint32_t second) {
    mct_peripheral_restart(reset);
    MCT_REGISTER(pll + PLL_CS) = 1; /* reference divider */
    MCT_REGISTER(pll + PLL_FBDIV_INT) = factor;
    MCT_CLEAR(pll + PLL_PWR) = 1u << 5 | 1u << 0; /* oscillator and PLL on */
    wait_for(pll + PLL_CS, 1u << 31);
    MCT_REGISTER(pll + PLL_PRIM) = first << 16 | second << 12;
    MCT_CLEAR(pll + PLL_PWR) = 1u << 3; /* output dividers on */
}

/* Steps back to the reference clock first: a debugger's restart leaves the PLL in use. */
void mct_clock_start(void) {
    MCT_CLEAR(CLK_SYS_CTRL) = 1;
    wait_for(CLK_SYS_SELECTED, 1u << 0);
    start_crystal();
    MCT_REGISTER(CLK_REF_CTRL) = 2; /* crystal */
    wait_for(CLK_REF_SELECTED, 1u << 2);
    mct_pll_start(MCT_PLL_SYS, MCT_RESETS_PLL_SYS, 125, MCT_PLL_FIRST, 2);
    MCT_REGISTER(CLK_SYS_CTRL) = 0; /* the other source is the PLL */
    MCT_SET(CLK_SYS_CTRL) = 1;      /* take it */
    wait_for(CLK_SYS_SELECTED, 1u << 1);
    MCT_REGISTER(CLK_PERI_CTRL) = 1u << 11; /* as the core */
}

/* The pad's pull-up keeps an open receiver silent. Its other bits, the RP2350's isolation among them,
 * become 0. */
void mct_pin_uart(uint32_t pin) {
    mct_peripheral_on(MCT_RESETS_IO_BANK0 | MCT_RESETS_PADS_BANK0);
    MCT_REGISTER(MCT_PADS_BANK0 + 4u + 4u * pin) = 1u << 6 | 1u << 4 | 1u << 3 | 1u << 1;
    MCT_REGISTER(MCT_IO_BANK0 + 4u + 8u * pin) = 2;
}
