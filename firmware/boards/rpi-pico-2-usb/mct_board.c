/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_rp2.h"

/* The USB connector; all pins are free. */
void mct_board_start(void) {
    mct_clock_start();
    mct_flash_start();
    mct_timer_start();
    mct_uart_start(MCT_CLOCK_HZ);
    mct_dwt_start();
}
