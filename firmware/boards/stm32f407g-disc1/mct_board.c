/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32.h"

/* USART2 is on the header: PA2 sends, PA3 receives. */
void mct_board_start(void) {
    mct_clock_start();
    mct_cache_start();
    mct_pin_alternate('A', 2, 7);
    mct_pin_alternate('A', 3, 7);
    mct_peripheral_on(MCT_RCC_APB1ENR, 17);
    mct_uart_start(MCT_APB1_HZ);
    mct_dwt_start();
}
