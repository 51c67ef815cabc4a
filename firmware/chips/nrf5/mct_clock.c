/* SPDX-License-Identifier: Apache-2.0 */
/* The core runs at its full clock from the reset on, from an internal oscillator that is a few percent
 * off; a UART needs the crystal. */
#include "mct_nrf5.h"

#define TASKS_HFCLKSTART (MCT_NRF5_POWER + 0x000u)
#define EVENTS_HFCLKSTARTED (MCT_NRF5_POWER + 0x100u)

/* Gives up after some 10 ms, many times what a crystal takes: an emulator may have no clocks, and works
 * all the same. */
void mct_clock_start(void) {
    MCT_REGISTER(EVENTS_HFCLKSTARTED) = 0;
    MCT_REGISTER(TASKS_HFCLKSTART) = 1;
    for (int32_t left = 20000; left > 0 && MCT_REGISTER(EVENTS_HFCLKSTARTED) == 0; left--) {
    }
}
