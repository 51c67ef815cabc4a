/* SPDX-License-Identifier: Apache-2.0 */
/* The USART of the STM32F4, at MCT_UART_BASE: RM0090, "USART". */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_chip.h"

#define SR (MCT_UART_BASE + 0x00u)
#define DR (MCT_UART_BASE + 0x04u)
#define BRR (MCT_UART_BASE + 0x08u)
#define CR1 (MCT_UART_BASE + 0x0Cu)

#define SR_RXNE (1u << 5)
#define SR_TC (1u << 6)
#define SR_TXE (1u << 7)

void mct_uart_start(uint32_t clock_hz) {
    MCT_REGISTER(BRR) = (clock_hz + MCT_UART_BAUD / 2u) / MCT_UART_BAUD;
    MCT_REGISTER(CR1) = 1u << 13 | 1u << 3 | 1u << 2; /* UE, TE, RE */
}

/* Reading SR and then DR also clears an overrun; the frame's checksum will tell of it. */
int32_t mct_board_receive(void) {
    while ((MCT_REGISTER(SR) & SR_RXNE) == 0) {
        MCT_WAITING();
    }
    return (int32_t)(MCT_REGISTER(DR) & 0xFFu);
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        while ((MCT_REGISTER(SR) & SR_TXE) == 0) {
        }
        MCT_REGISTER(DR) = bytes[i];
    }
}

void mct_uart_flush(void) {
    while ((MCT_REGISTER(SR) & SR_TC) == 0) {
    }
}
