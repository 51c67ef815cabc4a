/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a Cortex-M chip and its board offer each other. The rest of the firmware knows
 * mct_board.h only. */
#ifndef MCT_CHIP_H
#define MCT_CHIP_H

#include <stdint.h>

#define MCT_REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* A chip's part of start-up: called by it first of all, before RAM has its contents. */
void mct_chip_boot(void);

/* Restarts at once. Needs no stack: a fault's handler has none if the stack ran over. */
_Noreturn void mct_chip_restart(void);

/* What the NMI does where board.toml has NMI_OF_CHIP in [define]; else it restarts. */
void mct_chip_nmi(void);

/* Eight bits, no parity, one stop bit, MCT_UART_BAUD. clock_hz: the UART's own. */
void mct_uart_start(uint32_t clock_hz);

/* Returns when the last bit has left. */
void mct_uart_flush(void);

/* Starts the core's cycle counter: mct_cycles_dwt.c. */
void mct_dwt_start(void);

/* Turns the caches of core or flash on; makes them forget memory that changed under them. address
 * and bytes: multiples of 32. */
void mct_cache_start(void);
void mct_cache_forget(uint32_t address, uint32_t bytes);

/* Where start-up put the stack; link.ld defines both ends. */
extern uint32_t mct_stack_bottom[];
extern uint32_t mct_stack_top[];

/* Stops the pipeline until all writes have arrived. */
static inline void mct_synchronize(void) {
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

/* Resets the core and, on all chips but the RP2040, the peripherals with it. */
static inline _Noreturn void mct_core_restart(void) {
    mct_synchronize();
    MCT_REGISTER(0xE000ED0Cu) = 0x05FA0004u; /* AIRCR: key, SYSRESETREQ */
    for (;;) {
    }
}

#endif
