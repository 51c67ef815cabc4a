/* SPDX-License-Identifier: Apache-2.0 */
/* The UART without DMA, at pins MCT_UART_TX and MCT_UART_RX: "UART — Universal asynchronous
 * receiver/transmitter". It receives six bytes more than are read. */
#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_nrf5.h"

#define UART 0x40002000u
#define TASKS_STARTRX (UART + 0x000u)
#define TASKS_STARTTX (UART + 0x008u)
#define EVENTS_RXDRDY (UART + 0x108u)
#define EVENTS_TXDRDY (UART + 0x11Cu)
#define ENABLE (UART + 0x500u)
#define PSELRTS (UART + 0x508u)
#define PSELTXD (UART + 0x50Cu)
#define PSELCTS (UART + 0x510u)
#define PSELRXD (UART + 0x514u)
#define RXD (UART + 0x518u)
#define TXD (UART + 0x51Cu)
#define BAUDRATE (UART + 0x524u)
#define CONFIG (UART + 0x56Cu)

#define NO_PIN 0xFFFFFFFFu
#define OUTSET 0x508u
#define PIN_CNF(pin) (MCT_NRF5_GPIO(pin) + 0x700u + 4u * ((pin) % 32u))
#define OUTPUT 3u           /* its input is not connected */
#define INPUT_PULLED_UP 12u /* an open receiver is silent */

/* 2^32 / 16 MHz for each bit a second, to the nearest of the steps of 2^12 that the unit has. */
#define DIVISOR ((uint32_t)(((uint64_t)MCT_UART_BAUD << 28) / 1000000u + 0x800u) & 0xFFFFF000u)

void mct_uart_start(uint32_t clock_hz) {
    (void)clock_hz; /* the unit counts 16 MHz whatever the core's clock */
    MCT_REGISTER(MCT_NRF5_GPIO(MCT_UART_TX) + OUTSET) = 1u
                                                        << (MCT_UART_TX % 32u); /* idle is high */
    MCT_REGISTER(PIN_CNF(MCT_UART_TX)) = OUTPUT;
    MCT_REGISTER(PIN_CNF(MCT_UART_RX)) = INPUT_PULLED_UP;
    MCT_REGISTER(PSELRTS) = NO_PIN;
    MCT_REGISTER(PSELCTS) = NO_PIN;
    MCT_REGISTER(PSELTXD) = MCT_UART_TX;
    MCT_REGISTER(PSELRXD) = MCT_UART_RX;
    MCT_REGISTER(BAUDRATE) = DIVISOR;
    MCT_REGISTER(CONFIG) = 0; /* no parity, one stop bit, no flow control */
    MCT_REGISTER(ENABLE) = 4;
    MCT_REGISTER(EVENTS_RXDRDY) = 0;
    MCT_REGISTER(TASKS_STARTRX) = 1;
    MCT_REGISTER(TASKS_STARTTX) = 1;
}

/* The event is cleared before the byte is read: reading lets the next byte in, which sets it anew. */
int32_t mct_board_receive(void) {
    while (MCT_REGISTER(EVENTS_RXDRDY) == 0) {
        MCT_WAITING();
    }
    MCT_REGISTER(EVENTS_RXDRDY) = 0;
    return (int32_t)(MCT_REGISTER(RXD) & 0xFFu);
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        MCT_REGISTER(EVENTS_TXDRDY) = 0;
        MCT_REGISTER(TXD) = bytes[i];
        while (MCT_REGISTER(EVENTS_TXDRDY) == 0) {
        }
    }
}

/* mct_board_send returns when the last byte has left. */
void mct_uart_flush(void) {
}
