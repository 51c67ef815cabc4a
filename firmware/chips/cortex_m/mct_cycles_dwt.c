/* SPDX-License-Identifier: Apache-2.0 */
/* The cycle counter of ARMv7-M's Data Watchpoint and Trace unit: DDI 0403, C1.8. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_chip.h"

#define DEMCR 0xE000EDFCu
#define DWT_CTRL 0xE0001000u
#define DWT_CYCCNT 0xE0001004u
#define DWT_LAR 0xE0001FB0u

static uint64_t cycles;

void mct_dwt_start(void) {
    MCT_REGISTER(DEMCR) |= 1u << 24;    /* TRCENA */
    MCT_REGISTER(DWT_LAR) = 0xC5ACCE55; /* the Cortex-M7 has a lock, others ignore this */
    MCT_REGISTER(DWT_CYCCNT) = 0;
    MCT_REGISTER(DWT_CTRL) |= 1u; /* CYCCNTENA */
}

/* The hardware counts 32 bits, 20 s at 216 MHz. Whoever measures something longer must call this
 * within each such span; the difference of two calls is wrong by a multiple of 2^32 otherwise. */
uint64_t mct_board_cycles(void) {
    const uint32_t now = MCT_REGISTER(DWT_CYCCNT);
    cycles += (uint32_t)(now - (uint32_t)cycles);
    return cycles;
}

/* An emulator without the counter reads 0 always. */
uint32_t mct_board_clock_hz(void) {
    const uint32_t before = MCT_REGISTER(DWT_CYCCNT);
    return MCT_REGISTER(DWT_CYCCNT) != before ? MCT_CLOCK_HZ : 0;
}
