/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_rp2.h"

#define CRYSTAL_MHZ 12u

#ifdef MCT_RP2350
#define TIMER_TICK (MCT_TICKS + 0x18u)
#define TIMER_TICK_CYCLES (MCT_TICKS + 0x1Cu)

/* The timer has a tick of its own (8.5). */
static void start_tick(void) {
    MCT_REGISTER(TIMER_TICK_CYCLES) = CRYSTAL_MHZ;
    MCT_REGISTER(TIMER_TICK) = 1;
}
#else
#define WATCHDOG_TICK (MCT_WATCHDOG + 0x2Cu)

/* The watchdog's tick is the timer's clock, too (4.7.2). */
static void start_tick(void) {
    MCT_REGISTER(WATCHDOG_TICK) = 1u << 9 | CRYSTAL_MHZ;
}
#endif

void mct_timer_start(void) {
    start_tick();
    mct_peripheral_on(MCT_RESETS_TIMER);
}
