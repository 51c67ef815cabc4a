/* SPDX-License-Identifier: Apache-2.0 */
/* The UART of Arm's Cortex-M System Design Kit (DDI 0479, "APB UART"), at MCT_UART_BASE, and the
 * restart. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_chip.h"

#define DATA (MCT_UART_BASE + 0x00u)
#define STATE (MCT_UART_BASE + 0x04u)
#define CTRL (MCT_UART_BASE + 0x08u)
#define BAUDDIV (MCT_UART_BASE + 0x10u)

#define STATE_TX_FULL (1u << 0)
#define STATE_RX_FULL (1u << 1)

void mct_uart_start(uint32_t clock_hz) {
    MCT_REGISTER(BAUDDIV) = (clock_hz + MCT_UART_BAUD / 2u) / MCT_UART_BAUD;
    MCT_REGISTER(CTRL) = 1u << 1 | 1u << 0; /* receive, transmit */
}

int32_t mct_board_receive(void) {
    while ((MCT_REGISTER(STATE) & STATE_RX_FULL) == 0) {
        MCT_WAITING();
    }
    return (int32_t)(MCT_REGISTER(DATA) & 0xFFu);
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        while ((MCT_REGISTER(STATE) & STATE_TX_FULL) != 0) {
        }
        MCT_REGISTER(DATA) = bytes[i];
    }
}

/* The last byte leaves a one-byte buffer for a shift register of which nothing is told: waits as long
 * as it takes, in steps of at least one cycle. */
void mct_uart_flush(void) {
    while ((MCT_REGISTER(STATE) & STATE_TX_FULL) != 0) {
    }
    for (uint32_t left = MCT_CLOCK_HZ / MCT_UART_BAUD * 10u; left > 0; left--) {
        __asm__ volatile("");
    }
}

void mct_chip_boot(void) {
#ifdef __ARM_FEATURE_MVE                     /* no instruction of which may run before */
    MCT_REGISTER(0xE000ED88u) |= 0xFu << 20; /* CPACR: CP10 and CP11, all accesses */
    MCT_REGISTER(0xE000ED14u) |= 1u << 19;   /* CCR: LOB, loops without branches */
    mct_synchronize();
#endif
}

void mct_chip_restart(void) {
    mct_core_restart();
}

bool mct_board_bootloader(void) {
    return false;
}
