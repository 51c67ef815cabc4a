/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32.h"

/* USART6 is the header's first serial port: PC6 (D1) sends, PC7 (D0) receives. */
void mct_board_start(void) {
    mct_clock_start();
    mct_cache_start();
    mct_pin_alternate('C', 6, 8);
    mct_pin_alternate('C', 7, 8);
    mct_peripheral_on(MCT_RCC_APB2ENR, 5);
    mct_uart_start(MCT_APB2_HZ);
    mct_dwt_start();
}
