/* SPDX-License-Identifier: Apache-2.0 */
/* What a board provides to the firmware: bytes in and out, a cycle counter, two slots of flash.
 *
 * No function is called from an interrupt; all may block. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mct_board_config.h"

/* Clocks, pins, UART, cycle counter. Called once, first. */
void mct_board_start(void);

/* The next byte, 0 … 255; waits until there is one. -1: there will be none any more. */
int32_t mct_board_receive(void);

/* Returns when the bytes are handed to the UART. */
void mct_board_send(const uint8_t *bytes, uint32_t count);

/* Called behind each node of the network, if the board's board.toml says `between_nodes = true`:
 * what cannot wait for the end of a step. It leaves what came over the line where it is. */
void mct_between_nodes(void);

/* Called again and again while mct_board_receive waits for a byte: a program that listens goes on. */
#ifdef MCT_LEARN
void mct_app_wait(void);
#define MCT_WAITING() mct_app_wait()
#else
#define MCT_WAITING() ((void)0)
#endif

/* A board whose board.toml has BUTTON_PIN in [define] has a button, which a program that learns reads.
 * start: the pin becomes an input; called behind mct_board_start. mct_board_button: is it down now? */
#if defined(MCT_LEARN) && defined(MCT_BUTTON_PIN)
#define MCT_BUTTON
void mct_board_button_start(void);
bool mct_board_button(void);
#endif

/* CPU cycles since the start, and how many there are in a second; both 0 where none are counted. */
uint64_t mct_board_cycles(void);
uint32_t mct_board_clock_hz(void);

/* The most bytes of stack that were in use at once; 0 where it is not known. */
uint32_t mct_board_stack_used(void);

/* Starts the firmware anew, when the UART has sent everything. Does not return. */
_Noreturn void mct_board_restart(void);

/* Like mct_board_restart, into the chip's ROM bootloader. Returns false at once on a chip that has
 * none. */
bool mct_board_bootloader(void);

/* Slot 0 and slot 1: memory that keeps MCT_SLOT_BYTES without power. Only where the generated
 * mct_board_config.h says MCT_SLOT_BYTES > 0.
 *
 * erase: the bytes become 0xFF; offset and count are multiples of MCT_SLOT_ERASE_BYTES, the slot's
 * unit of erasing. The last unit goes first, so that a power cut leaves a log its begin. write: to erased bytes; offset and count are multiples of MCT_PAGE_BYTES, bytes
 * lie in SRAM. Both return false if the flash reports an error; the caller reads back what was
 * written. */
#define MCT_PAGE_BYTES 256u
const uint8_t *mct_board_slot(int32_t slot);
bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t count);
bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count);

/* Only where board.toml has SLOTS_GUARDED in [define]: flash whose words a power cut can leave so that
 * reading them is a bus fault. While it is on, such words can be read, as any bytes. It is on for no
 * longer than what was not yet verified is read. */
void mct_board_slots_guard(bool on);

#endif
