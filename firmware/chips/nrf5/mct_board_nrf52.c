/* SPDX-License-Identifier: Apache-2.0 */
/* Any board with an nRF52: all that differs is in board.toml. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_nrf5.h"

#define ICACHECNF (MCT_NRF5_NVMC + 0x540u)
#define NVIC_ICER 0xE000E180u
#define VTOR 0xE000ED08u
#define APPROTECT_DISABLE 0x40000558u
#define UICR_APPROTECT 0x10001208u

extern const uint32_t mct_vectors[];

/* What a bootloader may have left: interrupts that it enabled, its own vectors. And chips of build code F
 * and later lock the debug port at every reset, unless the firmware repeats what UICR says (errata 249). */
void mct_chip_boot(void) {
    for (uint32_t i = 0; i < 2; i++) {
        MCT_REGISTER(NVIC_ICER + 4u * i) = 0xFFFFFFFFu;
    }
    MCT_REGISTER(VTOR) = (uint32_t)(uintptr_t)mct_vectors;
    MCT_REGISTER(APPROTECT_DISABLE) = MCT_REGISTER(UICR_APPROTECT) & 0xFFu;
}

/* The cache holds instructions, and slots have none: it need not forget. */
void mct_board_start(void) {
    mct_clock_start();
    MCT_REGISTER(ICACHECNF) = 1;
    mct_uart_start(MCT_CLOCK_HZ);
    mct_dwt_start();
}
