/* SPDX-License-Identifier: Apache-2.0 */
/* Restarts, into the firmware or into the ROM bootloader: AN2606, "STM32 system memory boot mode". */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32_common.h"

#define VTOR 0xE000ED08u

/* A restart keeps the RAM. These words at the stack's far end say where it should lead; the stack is
 * painted over them at every start. */
#define WISH_0 0x6D637462u
#define WISH_1 (~WISH_0)

static volatile uint32_t *wish(void) {
    return mct_stack_bottom;
}

/* The bootloader expects the chip as after a reset, its own vectors in place. */
static _Noreturn void enter_bootloader(void) {
    const uint32_t stack_pointer = MCT_REGISTER(MCT_SYSTEM_MEMORY);
    const uint32_t entry = MCT_REGISTER(MCT_SYSTEM_MEMORY + 4u);
    MCT_REGISTER(mct_syscfg_on()) = 1; /* at address 0 too, where the chip allows it */
    MCT_REGISTER(VTOR) = MCT_SYSTEM_MEMORY;
    mct_synchronize();
    __asm__ volatile("msr msp, %0\n\tbx %1" ::"r"(stack_pointer), "r"(entry));
    __builtin_unreachable();
}

void mct_chip_boot(void) {
    if (wish()[0] == WISH_0 && wish()[1] == WISH_1) {
        wish()[0] = 0;
        enter_bootloader();
    }
}

void mct_chip_restart(void) {
    mct_core_restart();
}

/* The stack's far end is not cached: on the STM32F7 it lies in the core's own RAM. */
bool mct_board_bootloader(void) {
    mct_uart_flush();
    wish()[0] = WISH_0;
    wish()[1] = WISH_1;
    mct_core_restart();
}
