/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32.h"

/* USART1 is where the ROM's bootloader listens, too: PA9 sends, PA10 receives. */
void mct_board_start(void) {
    mct_clock_start();
    mct_cache_start();
    mct_pin_alternate('A', 9, 7);
    mct_pin_alternate('A', 10, 7);
    mct_peripheral_on(MCT_RCC_APB2ENR, 4);
    mct_uart_start(MCT_APB2_HZ);
    mct_dwt_start();
}
