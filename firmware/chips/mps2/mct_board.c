/* SPDX-License-Identifier: Apache-2.0 */
/* Arm's MPS2 board, alike with all of its FPGA images that are one Cortex-M. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_chip.h"

void mct_board_start(void) {
    mct_uart_start(MCT_CLOCK_HZ);
    mct_dwt_start();
}
