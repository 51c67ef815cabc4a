/* SPDX-License-Identifier: Apache-2.0 */
/* What all STM32s here have in common. Each family's header has the addresses of its registers, and
 * the family's mct_clock file has these functions. */
#ifndef MCT_STM32_COMMON_H
#define MCT_STM32_COMMON_H

#include "mct_chip.h"

/* The core at MCT_CLOCK_HZ, from the internal oscillator. */
void mct_clock_start(void);

/* Gives a pin, such as 'A', 9, to a peripheral: alternate function 0 … 15 of the data sheet. */
void mct_pin_alternate(char port, uint32_t pin, uint32_t function);

/* Lets the ROM lie at address 0, too, where the chip can. */
void mct_rom_first(void);

/* Turns on the clock of a peripheral: a bit of one of the …ENR registers. */
static inline void mct_peripheral_on(uint32_t register_address, uint32_t bit) {
    MCT_REGISTER(register_address) |= 1u << bit;
    (void)MCT_REGISTER(register_address); /* the clock runs two cycles after the write */
}

/* Waits for all bits of the mask. Gives up after some 10 ms, 30 times what any of them takes: an
 * emulator may have no clocks, and works all the same. */
static inline void mct_wait_for(uint32_t register_address, uint32_t mask) {
    for (int32_t left = 20000; left > 0; left--) {
        if ((MCT_REGISTER(register_address) & mask) == mask) {
            return;
        }
    }
}

/* Gives a pin of the port at an address, whose clock is on, to a peripheral. */
static inline void mct_port_alternate(uint32_t gpio, uint32_t pin, uint32_t function) {
    const uint32_t alternate = gpio + 0x20u + 4u * (pin / 8);
    const uint32_t nibble = 4u * (pin % 8);
    const uint32_t pair = 2u * pin;
    MCT_REGISTER(alternate) = (MCT_REGISTER(alternate) & ~(0xFu << nibble)) | function << nibble;
    MCT_REGISTER(gpio + 0x08u) |= 2u << pair; /* OSPEEDR: fast edges */
    /* PUPDR: pulled up, so that an open receiver is silent */
    MCT_REGISTER(gpio + 0x0Cu) = (MCT_REGISTER(gpio + 0x0Cu) & ~(3u << pair)) | 1u << pair;
    MCT_REGISTER(gpio) = (MCT_REGISTER(gpio) & ~(3u << pair)) | 2u << pair; /* MODER */
}

#endif
