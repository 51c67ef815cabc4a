/* SPDX-License-Identifier: Apache-2.0 */
/* The chip's own USB as the line to the host: a serial port (CDC-ACM), polled, without interrupts.
 * Chapters are those of the RP2040 datasheet, 4.1, and of the USB 2.0 specification where it says so.
 *
 * All of the driver's memory lies in the USB block's own 4 KB, so it takes no byte of SRAM. Bytes go
 * into the packet that leaves next, and a packet leaves when it is full or a frame ends: frames
 * begin and end with a zero and have none inside (mct_frame.h). What the host sends waits there
 * until the firmware reads it. A frame that nobody listens to is dropped to its end. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_rp2.h"

/* Registers of the controller (4.1.4). */
#define USB 0x50110000u
#define ADDR_ENDP (USB + 0x00u)
#define MAIN_CTRL (USB + 0x40u)
#define SIE_CTRL (USB + 0x4Cu)
#define SIE_STATUS (USB + 0x50u)
#define BUFF_STATUS (USB + 0x58u)
#define EP_STALL_ARM (USB + 0x68u)
#define USB_MUXING (USB + 0x74u)
#define USB_PWR (USB + 0x78u)

#define EP0_INT_1BUF (1u << 29)
#define PULLUP_EN (1u << 16)
#define BUS_RESET (1u << 19)
#define SETUP_REC (1u << 17)

/* The shared memory (4.1.2.5): setup packet, endpoint control, buffer control, then buffers. */
#define DPRAM 0x50100000u
#define EP1_IN_CTRL (DPRAM + 0x08u)
#define EP2_IN_CTRL (DPRAM + 0x10u)
#define EP2_OUT_CTRL (DPRAM + 0x14u)
#define EP0_IN (DPRAM + 0x80u)
#define EP0_OUT (DPRAM + 0x84u)
#define EP2_IN (DPRAM + 0x90u)
#define EP2_OUT (DPRAM + 0x94u)
#define EP0_BUFFER 0x100u /* both ways */
#define RX_BUFFER 0x180u
#define TX_BUFFER 0x1C0u
#define NOTIFY_BUFFER 0x200u /* of endpoint 1, which never sends */
#define DRIVER_STATE 0x240u
#define DPRAM_BYTES 0x1000u

#define EP_ON (1u << 31 | 1u << 29) /* enabled; BUFF_STATUS at each buffer */
#define EP_INTERRUPT (3u << 26)
#define EP_BULK (2u << 26)
#define FULL (1u << 15)
#define DATA1 (1u << 13)
#define STALL (1u << 11)
#define AVAILABLE (1u << 10)
#define COUNT_MASK 0x3FFu

/* Bits of BUFF_STATUS. */
#define EP0_IN_DONE (1u << 0)
#define EP0_OUT_DONE (1u << 1)
#define EP2_IN_DONE (1u << 4)
#define EP2_OUT_DONE (1u << 5)

#define PACKET_BYTES 64u
/* A packet that is not full ends what the host waits for, and needs no empty one behind it. */
#define TX_BYTES (PACKET_BYTES - 1u)
#define TEXT_CHARACTERS 31u /* a string descriptor in one packet */

#define CODING_BYTES 7u
#define DTR 1u
#define TOUCH_BAUD 1200u
#define ADDRESS_US 20000u /* a host takes an answer within milliseconds */
#define FLUSH_US 100000u
#define DETACH_US 1000u /* a hub keeps in mind what was open for 2.5 us; USB 2.0, 7.1.7.3 */

/* Where a control transfer is: USB 2.0, 8.5.3. */
typedef enum {
    IDLE,
    DATA_IN,   /* sends an answer, then takes the host's empty packet */
    DATA_OUT,  /* waits for the line coding */
    STATUS_IN, /* sends its own empty packet */
} control_stage;

/* USB 2.0, 9.3. */
typedef struct {
    uint32_t type, request, value, index, length;
} setup_packet;

#define KIND_MASK 0x60u
#define KIND_STANDARD 0x00u
#define KIND_CLASS 0x20u
#define TO_HOST 0x80u

typedef struct {
    const uint8_t *answer; /* what of it is still to be sent */
    uint16_t answer_bytes;
    uint8_t stage, control_data1;
    uint8_t configured, dtr, touched;
    uint8_t rx_count, rx_at, rx_data1;
    uint8_t tx_count, tx_busy, tx_data1;
    uint8_t in_frame; /* between the zeros of a frame that is sent */
    uint8_t dropped;  /* its rest has no reader */
    uint8_t coding[CODING_BYTES];
    char serial[2 * MCT_CHIP_NUMBER_BYTES + 1];
    uint8_t text[2 + 2 * TEXT_CHARACTERS];
} usb_state;

#define STATE ((usb_state *)(uintptr_t)(DPRAM + DRIVER_STATE))
_Static_assert(DRIVER_STATE + sizeof(usb_state) <= DPRAM_BYTES, "it lies behind the buffers");

#define LOW_FIRST(word) (word) & 0xFFu, (word) >> 8 & 0xFFu

/* clang-format off */
/* USB 2.0, 9.6.1. */
static const uint8_t device_descriptor[18] = {
    18, 1, LOW_FIRST(0x0200u),       /* USB 2.0 */
    0xEF, 2, 1, PACKET_BYTES,        /* its interfaces are grouped */
    LOW_FIRST(MCT_USB_VENDOR), LOW_FIRST(MCT_USB_PRODUCT), LOW_FIRST(0x0100u),
    1, 2, 3, 1,                      /* texts 1, 2 and 3; one configuration */
};

/* The functional descriptors, of type 0x24, are those of CDC 1.2 and PSTN 1.2. */
static const uint8_t configuration_descriptor[75] = {
    9, 2, 75, 0, 2, 1, 0, 0x80, 50,  /* two interfaces; fed by the bus, 100 mA */
    8, 11, 0, 2, 2, 2, 0, 0,         /* which are one function */
    9, 4, 0, 0, 1, 2, 2, 0, 0,       /* 0: communication, abstract control model */
    5, 0x24, 0, LOW_FIRST(0x0120u),  /* CDC 1.2 */
    5, 0x24, 1, 0, 1,                /* no call management */
    4, 0x24, 2, 2,                   /* line coding and control lines */
    5, 0x24, 6, 0, 1,                /* interface 0 governs interface 1 */
    7, 5, 0x81, 3, 8, 0, 16,         /* for notifications, which it never sends */
    9, 4, 1, 0, 2, 10, 0, 0, 0,      /* 1: data */
    7, 5, 0x02, 2, PACKET_BYTES, 0, 0,
    7, 5, 0x82, 2, PACKET_BYTES, 0, 0,
};
/* clang-format on */

static const uint8_t languages[4] = {4, 3, 0x09, 0x04}; /* English */
static const uint8_t zeros[2];
static const uint8_t configuration_number[1] = {1};

/* ---- packets ---- */

static uint32_t microseconds(void) {
    return MCT_REGISTER(MCT_TIMER_RAWL);
}

static volatile uint8_t *buffer(uint32_t offset) {
    return (volatile uint8_t *)(uintptr_t)(DPRAM + offset);
}

/* The controller runs at 48 MHz and may look in between: AVAILABLE comes 12 of the core's cycles
 * after all else (4.1.2.5.1). */
static void hand_over(uint32_t control, uint32_t value) {
    MCT_REGISTER(control) = value;
    __asm__ volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n");
    MCT_REGISTER(control) = value | AVAILABLE;
}

static uint32_t data1(uint8_t is_data1) {
    return is_data1 ? DATA1 : 0u;
}

static void take_packet(void) {
    STATE->rx_count = STATE->rx_at = 0;
    hand_over(EP2_OUT, PACKET_BYTES | data1(STATE->rx_data1));
    STATE->rx_data1 ^= 1u;
}

static void send_packet(void) {
    if (STATE->tx_count > 0) {
        STATE->tx_busy = 1;
        hand_over(EP2_IN, FULL | STATE->tx_count | data1(STATE->tx_data1));
        STATE->tx_data1 ^= 1u;
        STATE->tx_count = 0;
    }
}

/* Nobody reads what is being sent. */
static void drop_frame(void) {
    STATE->dropped = STATE->in_frame;
    STATE->tx_count = 0;
}

/* ---- control transfers ---- */

static void control_in(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        buffer(EP0_BUFFER)[i] = bytes[i];
    }
    hand_over(EP0_IN, FULL | count | data1(STATE->control_data1));
    STATE->control_data1 ^= 1u;
}

/* The empty packet that says that a request was carried out. */
static void accept(void) {
    STATE->stage = STATUS_IN;
    STATE->control_data1 = 1;
    control_in(zeros, 0);
}

static void refuse(void) {
    STATE->stage = IDLE;
    MCT_REGISTER(EP_STALL_ARM) = 3; /* both ways, until the next setup packet */
    MCT_REGISTER(EP0_IN) = STALL;
    MCT_REGISTER(EP0_OUT) = STALL;
}

/* The next packet of an answer; with the last one the way is free for the host's empty packet, so
 * that a short answer takes one poll. */
static void send_answer(void) {
    const uint32_t left = STATE->answer_bytes;
    const uint32_t count = left < PACKET_BYTES ? left : PACKET_BYTES;
    STATE->answer_bytes = (uint16_t)(left - count);
    control_in(STATE->answer, count);
    STATE->answer += count;
    if (STATE->answer_bytes == 0) {
        hand_over(EP0_OUT, PACKET_BYTES | DATA1);
    }
}

/* None of them is a multiple of a packet, behind which an empty one would have to follow. */
static void answer(const uint8_t *bytes, uint32_t count, uint32_t wanted) {
    STATE->answer = bytes;
    STATE->answer_bytes = (uint16_t)(count < wanted ? count : wanted);
    STATE->stage = DATA_IN;
    send_answer();
}

static void answer_text(const char *text, uint32_t wanted) {
    uint8_t *to = STATE->text;
    uint32_t count = 2;
    for (; *text != '\0' && count < sizeof STATE->text; text++, count += 2) {
        to[count] = (uint8_t)*text;
        to[count + 1] = 0;
    }
    to[0] = (uint8_t)count;
    to[1] = 3;
    answer(to, count, wanted);
}

static void answer_descriptor(uint32_t value, uint32_t wanted) {
    switch (value) {
    case 0x0100:
        answer(device_descriptor, sizeof device_descriptor, wanted);
        break;
    case 0x0200:
        answer(configuration_descriptor, sizeof configuration_descriptor, wanted);
        break;
    case 0x0300:
        answer(languages, sizeof languages, wanted);
        break;
    case 0x0301:
        answer_text("mcutrain", wanted);
        break;
    case 0x0302:
        answer_text(MCT_BOARD_NAME, wanted);
        break;
    case 0x0303:
        answer_text(STATE->serial, wanted);
        break;
    default: /* among them what only devices of high speed have */
        refuse();
    }
}

/* The data endpoints begin with DATA0 again: USB 2.0, 9.1.1.5 and 9.4.5. */
static void restart_receiver(void) {
    STATE->rx_data1 = 0;
    if (STATE->rx_count == 0) {
        take_packet();
    }
}

static void restart_sender(void) {
    STATE->tx_data1 = 0;
    if (STATE->tx_busy) { /* what waits is the first packet now */
        hand_over(EP2_IN, MCT_REGISTER(EP2_IN) & (FULL | COUNT_MASK));
        STATE->tx_data1 = 1;
    }
}

static void configure(uint32_t number) {
    STATE->configured = (uint8_t)number;
    STATE->tx_busy = STATE->dtr = 0;
    MCT_REGISTER(EP2_IN) = MCT_REGISTER(EP2_OUT) = 0;
    STATE->rx_count = 0;
    drop_frame();
    if (number != 0) {
        restart_receiver();
        restart_sender();
    }
    accept();
}

/* The status still goes out from the old address, and the host calls the new one 2 ms later: USB 2.0,
 * 9.2.6.3. So this is waited for. */
static void take_address(uint32_t address) {
    const uint32_t begin = microseconds();
    accept();
    while ((MCT_REGISTER(BUFF_STATUS) & EP0_IN_DONE) == 0 && microseconds() - begin < ADDRESS_US) {
    }
    MCT_REGISTER(ADDR_ENDP) = address;
}

/* Of a port that was opened at 1200 baud and closed: the usual sign for the bootloader. */
static void take_lines(uint32_t lines) {
    static const uint8_t sign[4] = {TOUCH_BAUD & 0xFFu, TOUCH_BAUD >> 8, 0, 0};
    const uint8_t dtr = (uint8_t)(lines & DTR);
    STATE->touched = STATE->dtr && !dtr && memcmp(STATE->coding, sign, sizeof sign) == 0;
    STATE->dtr = dtr;
    if (!dtr) {
        drop_frame();
    }
    accept();
}

/* Reset what CLEAR_FEATURE or SET_INTERFACE names; an endpoint never halts, but its toggle restarts. */
static void restart_endpoints(bool receiver, bool sender) {
    if (receiver) {
        restart_receiver();
    }
    if (sender) {
        restart_sender();
    }
    accept();
}

static void take_standard(const setup_packet *setup) {
    const uint32_t index = setup->index;
    switch (setup->request) {
    case 5:
        take_address(setup->value);
        break;
    case 1: /* CLEAR_FEATURE */
        restart_endpoints(index == 0x02u, index == 0x82u);
        break;
    case 11: /* SET_INTERFACE: each has the setting 0 alone */
        if (setup->value == 0) {
            restart_endpoints(index == 1, index == 1);
        } else {
            refuse();
        }
        break;
    case 9: /* SET_CONFIGURATION */
        if (setup->value <= 1) {
            configure(setup->value);
        } else {
            refuse();
        }
        break;
    default:
        refuse();
    }
}

static void answer_standard(const setup_packet *setup) {
    switch (setup->request) {
    case 0: /* GET_STATUS: bus-powered, wakes nobody, not halted */
        answer(zeros, sizeof zeros, setup->length);
        break;
    case 6:
        answer_descriptor(setup->value, setup->length);
        break;
    case 8: /* GET_CONFIGURATION */
        answer(STATE->configured ? configuration_number : zeros, 1, setup->length);
        break;
    case 10: /* GET_INTERFACE */
        answer(zeros, 1, setup->length);
        break;
    default:
        refuse();
    }
}

/* PSTN 1.2, 6.3. */
static void take_class(const setup_packet *setup) {
    switch (setup->request) {
    case 0x20: /* SET_LINE_CODING */
        STATE->stage = DATA_OUT;
        hand_over(EP0_OUT, PACKET_BYTES | DATA1);
        break;
    case 0x21: /* GET_LINE_CODING */
        answer(STATE->coding, CODING_BYTES, setup->length);
        break;
    case 0x22: /* SET_CONTROL_LINE_STATE */
        take_lines(setup->value);
        break;
    case 0x23: /* SEND_BREAK */
        accept();
        break;
    default:
        refuse();
    }
}

static void take_setup(void) {
    const uint32_t first = MCT_REGISTER(DPRAM), second = MCT_REGISTER(DPRAM + 4u);
    const setup_packet setup = {.type = first & 0xFFu,
                                .request = first >> 8 & 0xFFu,
                                .value = first >> 16,
                                .index = second & 0xFFFFu,
                                .length = second >> 16};
    MCT_REGISTER(EP0_IN) = MCT_REGISTER(EP0_OUT) = 0; /* what an earlier transfer left */
    MCT_REGISTER(BUFF_STATUS) = EP0_IN_DONE | EP0_OUT_DONE;
    STATE->control_data1 = 1;
    if ((setup.type & KIND_MASK) == KIND_CLASS) {
        take_class(&setup);
    } else if ((setup.type & KIND_MASK) != KIND_STANDARD) {
        refuse();
    } else if ((setup.type & TO_HOST) != 0) {
        answer_standard(&setup);
    } else {
        take_standard(&setup);
    }
}

static void end_control_in(void) {
    if (STATE->stage == DATA_IN && STATE->answer_bytes > 0) {
        send_answer();
    } else if (STATE->stage == STATUS_IN) {
        STATE->stage = IDLE;
    }
}

static void end_control_out(void) {
    if (STATE->stage == DATA_OUT) {
        for (uint32_t i = 0; i < CODING_BYTES; i++) {
            STATE->coding[i] = buffer(EP0_BUFFER)[i];
        }
        accept();
    } else {
        STATE->stage = IDLE;
    }
}

/* ---- the bus ---- */

/* All is as after the cable came in. */
static void take_bus_reset(void) {
    MCT_REGISTER(ADDR_ENDP) = 0;
    MCT_REGISTER(EP0_IN) = MCT_REGISTER(EP0_OUT) = 0;
    MCT_REGISTER(EP2_IN) = MCT_REGISTER(EP2_OUT) = 0;
    MCT_REGISTER(BUFF_STATUS) = 0xFFFFFFFFu;
    STATE->stage = IDLE;
    STATE->configured = STATE->dtr = STATE->touched = 0;
    STATE->rx_count = STATE->rx_at = STATE->tx_busy = 0;
    drop_frame();
}

static void take_done(uint32_t done) {
    MCT_REGISTER(BUFF_STATUS) = done; /* ones clear */
    if ((done & EP0_IN_DONE) != 0) {
        end_control_in();
    }
    if ((done & EP0_OUT_DONE) != 0) {
        end_control_out();
    }
    if ((done & EP2_IN_DONE) != 0) {
        STATE->tx_busy = 0;
    }
    if ((done & EP2_OUT_DONE) != 0) {
        STATE->rx_at = 0;
        STATE->rx_count = (uint8_t)(MCT_REGISTER(EP2_OUT) & COUNT_MASK);
        if (STATE->rx_count == 0) {
            take_packet();
        }
    }
}

/* Off the bus, so that the host sees the restart as a cable that was pulled. */
static void detach(void) {
    const uint32_t begin = microseconds();
    MCT_CLEAR(SIE_CTRL) = PULLUP_EN;
    while (microseconds() - begin < DETACH_US) {
    }
}

/* Also called between nodes and while flash is erased: what the host asks of the port itself is
 * answered then, and the bytes of the line wait. */
void mct_between_nodes(void) {
    if ((MCT_REGISTER(SIE_STATUS) & BUS_RESET) != 0) {
        MCT_REGISTER(SIE_STATUS) = BUS_RESET;
        take_bus_reset();
    }
    const uint32_t done = MCT_REGISTER(BUFF_STATUS); /* of what came before a setup packet */
    if (done != 0) {
        take_done(done);
    }
    if ((MCT_REGISTER(SIE_STATUS) & SETUP_REC) != 0) {
        MCT_REGISTER(SIE_STATUS) = SETUP_REC;
        take_setup();
    }
    if (STATE->touched && STATE->stage == IDLE) {
        STATE->touched = 0;
        (void)mct_board_bootloader();
    }
}

/* ---- what the firmware calls ---- */

/* 48 MHz. */
static void start_clock(void) {
    MCT_REGISTER(MCT_CLK_USB_CTRL) = 0;
    mct_pll_start(MCT_PLL_USB, MCT_RESETS_PLL_USB, 100, 5, 5);
    MCT_REGISTER(MCT_CLK_USB_CTRL) = 1u << 11; /* on, from MCT_PLL_USB */
}

/* The board's number in hexadecimal, for a host with several boards. */
static void make_serial(void) {
    uint8_t number[MCT_CHIP_NUMBER_BYTES];
    mct_chip_number(number);
    for (uint32_t i = 0; i < 2 * sizeof number; i++) {
        const uint32_t digit = (uint32_t)number[i / 2] >> (i % 2 == 0 ? 4 : 0) & 0xFu;
        STATE->serial[i] = "0123456789ABCDEF"[digit];
    }
}

/* The Pico does not wire VBUS to the controller, which therefore is told that it is there. */
void mct_uart_start(uint32_t clock_hz) {
    (void)clock_hz;
    start_clock();
    mct_peripheral_restart(MCT_RESETS_USB);
    for (uint32_t at = 0; at < DPRAM_BYTES; at += 4u) {
        MCT_REGISTER(DPRAM + at) = 0;
    }
    make_serial();
    MCT_REGISTER(USB_MUXING) = 1u << 3 | 1u << 0; /* its own transceiver */
    MCT_REGISTER(USB_PWR) = 1u << 3 | 1u << 2;
    MCT_REGISTER(MAIN_CTRL) = 1; /* on, as a device; not isolated, as the RP2350 begins */
    MCT_REGISTER(SIE_CTRL) = EP0_INT_1BUF;
    MCT_REGISTER(EP1_IN_CTRL) = EP_ON | EP_INTERRUPT | NOTIFY_BUFFER;
    MCT_REGISTER(EP2_IN_CTRL) = EP_ON | EP_BULK | TX_BUFFER;
    MCT_REGISTER(EP2_OUT_CTRL) = EP_ON | EP_BULK | RX_BUFFER;
    MCT_SET(SIE_CTRL) = PULLUP_EN;
}

int32_t mct_board_receive(void) {
    while (STATE->rx_at >= STATE->rx_count) {
        mct_between_nodes();
        MCT_WAITING();
    }
    const int32_t byte = buffer(RX_BUFFER)[STATE->rx_at++];
    if (STATE->rx_at == STATE->rx_count) {
        take_packet();
    }
    return byte;
}

static void put(uint8_t byte) {
    while (STATE->tx_busy && !STATE->dropped) {
        mct_between_nodes();
    }
    if (!STATE->dropped) {
        buffer(TX_BUFFER)[STATE->tx_count++] = byte;
        if (STATE->tx_count == TX_BYTES) {
            send_packet();
        }
    }
}

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const bool begins = bytes[i] == 0 && !STATE->in_frame;
        if (begins) {
            STATE->in_frame = 1;
            STATE->dropped = !STATE->dtr;
        }
        put(bytes[i]);
        if (bytes[i] == 0 && !begins) {
            STATE->in_frame = 0;
            send_packet();
        }
    }
}

void mct_uart_flush(void) {
    const uint32_t begin = microseconds();
    while (STATE->tx_busy && STATE->dtr && microseconds() - begin < FLUSH_US) {
        mct_between_nodes();
    }
    detach();
}
