/* SPDX-License-Identifier: Apache-2.0 */
/* Restarts, into the firmware or into the ROM bootloader: AN2606, "STM32 system memory boot mode". */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_stm32_common.h"

#define VTOR 0xE000ED08u

/* A restart keeps the RAM. Two words say where it should lead. They lie at the stack's far end, and the
 * stack is painted over them at every start; where that is cached, in the core's own RAM. */
#define WISH_0 0x6D637462u
#define WISH_1 (~WISH_0)

static volatile uint32_t *wish(void) {
#ifdef MCT_WISH
    return (volatile uint32_t *)(uintptr_t)MCT_WISH;
#else
    return mct_stack_bottom;
#endif
}

/* RAM of the STM32H7 has checksums, which are wrong until it is written. */
static void prepare_wish(void) {
#ifdef MCT_WISH
    const uint32_t by_software = 1u << 24;
    if ((MCT_REGISTER(MCT_RESET_CAUSES) & by_software) == 0) { /* the first since power came */
        wish()[0] = 0;
        wish()[1] = 0;
    }
#endif
}

/* The bootloader expects the chip as after a reset, its own vectors in place. */
static _Noreturn void enter_bootloader(void) {
    const uint32_t stack_pointer = MCT_REGISTER(MCT_SYSTEM_MEMORY);
    const uint32_t entry = MCT_REGISTER(MCT_SYSTEM_MEMORY + 4u);
    mct_rom_first();
    MCT_REGISTER(VTOR) = MCT_SYSTEM_MEMORY;
    mct_synchronize();
    __asm__ volatile("msr msp, %0\n\tbx %1" ::"r"(stack_pointer), "r"(entry));
    __builtin_unreachable();
}

void mct_chip_boot(void) {
    prepare_wish();
    if (wish()[0] == WISH_0 && wish()[1] == WISH_1) {
        wish()[0] = 0;
        enter_bootloader();
    }
}

void mct_chip_restart(void) {
    mct_core_restart();
}

/* On the STM32F7 the stack's far end is not cached: it lies in the core's own RAM. */
bool mct_board_bootloader(void) {
    mct_uart_flush();
    wish()[0] = WISH_0;
    wish()[1] = WISH_1;
    mct_core_restart();
}
