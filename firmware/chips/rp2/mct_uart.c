/* SPDX-License-Identifier: Apache-2.0 */
/* UART0, a PL011 with a FIFO of 32 bytes each way: chapter "UART". */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_rp2.h"

#define DR (MCT_UART0 + 0x00u)
#define FR (MCT_UART0 + 0x18u)
#define IBRD (MCT_UART0 + 0x24u)
#define FBRD (MCT_UART0 + 0x28u)
#define LCR_H (MCT_UART0 + 0x2Cu)
#define CR (MCT_UART0 + 0x30u)

#define FR_BUSY (1u << 3)
#define FR_RX_EMPTY (1u << 4)
#define FR_TX_FULL (1u << 5)

void mct_uart_start(uint32_t clock_hz) {
    const uint32_t divisor_64 = (clock_hz * 4u + MCT_UART_BAUD / 2u) / MCT_UART_BAUD;
    mct_peripheral_on(MCT_RESETS_UART0);
    MCT_REGISTER(IBRD) = divisor_64 / 64u;
    MCT_REGISTER(FBRD) = divisor_64 % 64u;
    MCT_REGISTER(LCR_H) = 3u << 5 | 1u << 4;        /* 8 bits, FIFOs */
    MCT_REGISTER(CR) = 1u << 9 | 1u << 8 | 1u << 0; /* receive, transmit, on */
}

int32_t mct_board_receive(void) {
    while ((MCT_REGISTER(FR) & FR_RX_EMPTY) != 0) {
        MCT_WAITING();
    }
    return (int32_t)(MCT_REGISTER(DR) & 0xFFu);
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        while ((MCT_REGISTER(FR) & FR_TX_FULL) != 0) {
        }
        MCT_REGISTER(DR) = bytes[i];
    }
}

void mct_uart_flush(void) {
    while ((MCT_REGISTER(FR) & FR_BUSY) != 0) {
    }
}
