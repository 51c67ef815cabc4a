/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_rp2.h"

#define TIMER_RAWH (MCT_TIMER + 0x24u)

/* The Cortex-M0+ counts no cycles; the timer counts microseconds. */
uint64_t mct_board_cycles(void) {
    for (;;) {
        const uint32_t high = MCT_REGISTER(TIMER_RAWH);
        const uint32_t low = MCT_REGISTER(MCT_TIMER_RAWL);
        if (MCT_REGISTER(TIMER_RAWH) == high) {
            return ((uint64_t)high << 32 | low) * MCT_CLOCK_MHZ;
        }
    }
}

uint32_t mct_board_clock_hz(void) {
    return MCT_CLOCK_HZ;
}
