/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32l4.h"

/* USART1 goes to the ST-LINK's virtual serial port: PB6 sends, PB7 receives. */
void mct_board_start(void) {
    mct_clock_start();
    mct_cache_start();
    mct_pin_alternate('B', 6, 7);
    mct_pin_alternate('B', 7, 7);
    mct_peripheral_on(MCT_RCC_APB2ENR, 14);
    mct_uart_start(MCT_APB2_HZ);
    mct_dwt_start();
}
