/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_nrf5.h"

#define GPREGRET (MCT_NRF5_POWER + 0x51Cu)

void mct_chip_restart(void) {
    mct_core_restart();
}

/* The chip has no bootloader of its own. A board's may listen where this register, which a restart keeps,
 * asks it to. */
bool mct_board_bootloader(void) {
#ifdef MCT_BOOTLOADER_WISH
    mct_uart_flush();
    MCT_REGISTER(GPREGRET) = MCT_BOOTLOADER_WISH;
    mct_core_restart();
#else
    return false;
#endif
}
