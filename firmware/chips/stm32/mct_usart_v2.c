/* SPDX-License-Identifier: Apache-2.0 */
/* The USART of the STM32F3 and F7, at MCT_UART_BASE: RM0316, RM0385, "USART". */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_chip.h"

#define CR1 (MCT_UART_BASE + 0x00u)
#define CR3 (MCT_UART_BASE + 0x08u)
#define BRR (MCT_UART_BASE + 0x0Cu)
#define ISR (MCT_UART_BASE + 0x1Cu)
#define RDR (MCT_UART_BASE + 0x24u)
#define TDR (MCT_UART_BASE + 0x28u)

#define ISR_RXNE (1u << 5)
#define ISR_TC (1u << 6)
#define ISR_TXE (1u << 7)

void mct_uart_start(uint32_t clock_hz) {
    MCT_REGISTER(BRR) = (clock_hz + MCT_UART_BAUD / 2u) / MCT_UART_BAUD;
    MCT_REGISTER(CR3) = 1u << 12; /* OVRDIS: an overrun drops a byte; the checksum will tell */
    MCT_REGISTER(CR1) = 1u << 3 | 1u << 2 | 1u << 0; /* TE, RE, UE */
}

int32_t mct_board_receive(void) {
    while ((MCT_REGISTER(ISR) & ISR_RXNE) == 0) {
        MCT_WAITING();
    }
    return (int32_t)(MCT_REGISTER(RDR) & 0xFFu);
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        while ((MCT_REGISTER(ISR) & ISR_TXE) == 0) {
        }
        MCT_REGISTER(TDR) = bytes[i];
    }
}

void mct_uart_flush(void) {
    while ((MCT_REGISTER(ISR) & ISR_TC) == 0) {
    }
}
