/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_rp2.h"

/* UART0: GP0 sends, GP1 receives. */
void mct_board_start(void) {
    mct_clock_start();
    mct_timer_start();
    mct_pin_uart(0);
    mct_pin_uart(1);
    mct_uart_start(MCT_CLOCK_HZ);
}
