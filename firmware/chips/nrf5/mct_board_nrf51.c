/* SPDX-License-Identifier: Apache-2.0 */
/* Any board with an nRF51: all that differs is in board.toml. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_nrf5.h"

/* The core has no cycle counter; TIMER0 counts 16 MHz, which is the core's clock. */
#define TIMER0 0x40008000u
#define TASKS_START (TIMER0 + 0x000u)
#define TASKS_CAPTURE0 (TIMER0 + 0x040u)
#define BITMODE (TIMER0 + 0x508u)
#define PRESCALER (TIMER0 + 0x510u)
#define CC0 (TIMER0 + 0x540u)

static uint32_t before, wraps;

void mct_board_start(void) {
    mct_clock_start();
    mct_uart_start(MCT_CLOCK_HZ);
    MCT_REGISTER(BITMODE) = 3; /* 32 bits: 268 s, in which somebody must ask */
    MCT_REGISTER(PRESCALER) = 0;
    MCT_REGISTER(TASKS_START) = 1;
}

uint64_t mct_board_cycles(void) {
    MCT_REGISTER(TASKS_CAPTURE0) = 1;
    const uint32_t now = MCT_REGISTER(CC0);
    if (now < before) {
        wraps++;
    }
    before = now;
    return (uint64_t)wraps << 32 | now;
}

uint32_t mct_board_clock_hz(void) {
    return MCT_CLOCK_HZ;
}

void mct_chip_boot(void) {
}
