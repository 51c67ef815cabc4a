/* SPDX-License-Identifier: Apache-2.0 */
/* From reset to main: ARMv6-M and ARMv7-M alike. See the architecture reference manuals DDI 0419 and
 * DDI 0403, "Exception model". */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_chip.h"

#define PAINT 0xA5A5A5A5u

/* More than start-up uses of the stack itself; it always counts as used. */
#define START_STACK_BYTES 256u

/* Addresses that link.ld defines. */
extern uint32_t mct_data_load[], mct_data_begin[], mct_data_end[];
extern uint32_t mct_bss_begin[], mct_bss_end[];

int main(void);
_Noreturn void mct_chip_reset(void); /* for the debugger, and link.ld's ENTRY */

static void start_memory(void) {
    const uint32_t *from = mct_data_load;
    for (uint32_t *to = mct_data_begin; to < mct_data_end; to++, from++) {
        *to = *from;
    }
    for (uint32_t *to = mct_bss_begin; to < mct_bss_end; to++) {
        *to = 0;
    }
}

/* Fills the unused stack, so that mct_board_stack_used can see how deep it ever was. */
static void paint_stack(void) {
    for (uint32_t i = 0; i < (MCT_STACK_BYTES - START_STACK_BYTES) / sizeof(uint32_t); i++) {
        mct_stack_bottom[i] = PAINT;
    }
}

_Noreturn void mct_chip_reset(void) {
    mct_chip_boot();
    start_memory();
    paint_stack();
    (void)main();
    mct_chip_restart();
}

typedef struct {
    uint32_t *stack_pointer;
    void (*reset)(void);
    void (*exceptions[14])(void); /* NMI, HardFault … SysTick */
} vector_table;

#ifdef MCT_NMI_OF_CHIP
#define NMI mct_chip_nmi
#else
#define NMI mct_chip_restart
#endif

/* Nothing enables an interrupt, so all but the reset are faults: bugs, or a stack that ran over and
 * off the RAM. The host learns of the restart by the session that is gone. */
const vector_table mct_vectors __attribute__((section(".vectors"), used));
const vector_table mct_vectors = {
    .stack_pointer = mct_stack_top,
    .reset = mct_chip_reset,
    .exceptions = {NMI, mct_chip_restart, mct_chip_restart, mct_chip_restart, mct_chip_restart,
                   mct_chip_restart, mct_chip_restart, mct_chip_restart, mct_chip_restart,
                   mct_chip_restart, mct_chip_restart, mct_chip_restart, mct_chip_restart,
                   mct_chip_restart},
};

void mct_board_restart(void) {
    mct_uart_flush();
    mct_chip_restart();
}

uint32_t mct_board_stack_used(void) {
    const uint32_t *word = mct_stack_bottom;
    while (word < mct_stack_top && *word == PAINT) {
        word++;
    }
    return (uint32_t)(mct_stack_top - word) * (uint32_t)sizeof *word;
}
