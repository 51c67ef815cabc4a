#include "fake.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_bytes.h"
#include "mct_protocol.h"

static mct_protocol protocol;
static uint8_t slots[2][MCT_SLOT_BYTES];
static int8_t input[MCT_INPUT_BYTES];
static int8_t output[MCT_OUTPUT_BYTES];
static uint8_t state[MCT_STATE_BYTES];
static uint8_t sent[1 << 16];
static uint32_t sent_count, trained, restarts;
static int32_t operations_left = -1;
static jmp_buf power;

/* ---- model: the state is a counter and a running mix of what was learnt ---- */

void mct_reset(uint32_t seed) {
    memset(state, 0, sizeof state);
    mct_put32(state, seed);
    trained = 0;
}

int8_t *mct_input(void) {
    return input;
}

const int8_t *mct_infer(void) {
    for (int32_t i = 0; i < MCT_OUTPUT_BYTES; i++) {
        output[i] = (int8_t)(input[i] ^ state[i]);
    }
    return output;
}

mct_status mct_train(int32_t label, mct_learning_rate rate, mct_result *result) {
    trained++;
    mct_put32(state + 4, mct_get32(state + 4) + 1);
    for (uint32_t i = 8; i < MCT_STATE_BYTES; i++) {
        state[i] = (uint8_t)(state[i] * 31u + (uint8_t)input[i] + (uint32_t)label);
    }
    result->loss_q16 = rate.mult_q31 ^ rate.shift;
    result->prediction = 0;
    return MCT_OK;
}

uint8_t *mct_state_bytes(void) {
    return state;
}

uint32_t mct_position(void) {
    return mct_get32(state + 4);
}

uint32_t mct_saturations(void) {
    return 3;
}

void mct_state_save(uint8_t saved[MCT_SAVED_BYTES]) {
    mct_state_header(MCT_MODEL_HASH, state, MCT_STATE_BYTES, saved);
    memcpy(saved + MCT_STATE_HEADER_BYTES, state, MCT_STATE_BYTES);
}

void mct_state_read(uint32_t offset, uint32_t count, uint8_t *to) {
    uint8_t saved[MCT_SAVED_BYTES];
    mct_state_save(saved);
    const uint32_t left = offset < MCT_SAVED_BYTES ? MCT_SAVED_BYTES - offset : 0;
    memcpy(to, saved + (left > 0 ? offset : 0), count < left ? count : left);
}

mct_status mct_state_verify(const uint8_t *saved, size_t saved_bytes) {
    const mct_status status = mct_state_check_header(MCT_MODEL_HASH, MCT_STATE_BYTES, saved);
    if (status != MCT_OK || saved_bytes != MCT_SAVED_BYTES) {
        return status != MCT_OK ? status : MCT_ERROR_SIZE;
    }
    return mct_state_check(saved, saved + MCT_STATE_HEADER_BYTES, MCT_STATE_BYTES);
}

mct_status mct_state_load(const uint8_t *saved, size_t saved_bytes) {
    const mct_status status = mct_state_verify(saved, saved_bytes);
    if (status == MCT_OK) {
        memcpy(state, saved + MCT_STATE_HEADER_BYTES, MCT_STATE_BYTES);
    }
    return status;
}

/* ---- board ---- */

void mct_board_send(const uint8_t *bytes, uint32_t count) {
    const uint32_t space = (uint32_t)sizeof sent - sent_count;
    count = count < space ? count : space;
    memcpy(sent + sent_count, bytes, count);
    sent_count += count;
}

uint64_t mct_board_cycles(void) {
    static uint64_t now;
    return now += 1000;
}

uint32_t mct_board_clock_hz(void) {
    return 1000000;
}

uint32_t mct_board_stack_used(void) {
    return 64;
}

_Noreturn void mct_board_restart(void) {
    restarts++;
    longjmp(power, 1);
}

bool mct_board_bootloader(void) {
    restarts++;
    longjmp(power, 1);
}

/* Whether the power fails in this operation, which then is done by half. */
static bool fails(void) {
    return operations_left >= 0 && operations_left-- == 0;
}

const uint8_t *mct_board_slot(int32_t slot) {
    return slots[slot];
}

bool mct_board_slot_erase(int32_t slot) {
    if (fails()) {
        for (uint32_t i = 0; i < MCT_SLOT_BYTES; i += 3) {
            slots[slot][i] = 0xFF;
        }
        longjmp(power, 2);
    }
    memset(slots[slot], 0xFF, MCT_SLOT_BYTES);
    return true;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const bool cut = fails();
    for (uint32_t i = 0; i < (cut ? count / 3 : count); i++) {
        if (offset % MCT_PAGE_BYTES != 0 || slots[slot][offset + i] != 0xFF) {
            abort(); /* flash that was not erased, or half a page */
        }
        slots[slot][offset + i] = bytes[i];
    }
    if (cut) {
        longjmp(power, 2);
    }
    return true;
}

/* ---- what the tests call ---- */

void fake_begin(void) {
    memset(&protocol, 0xA5, sizeof protocol);
    mct_protocol_start(&protocol);
}

void fake_erase_flash(void) {
    memset(slots, 0xFF, sizeof slots);
    operations_left = -1;
    restarts = 0;
    trained = 0;
    sent_count = 0;
}

void fake_receive(const uint8_t *bytes, uint32_t count) {
    for (volatile uint32_t i = 0; i < count; i++) {
        if (setjmp(power) == 0) {
            mct_protocol_receive(&protocol, bytes[i]);
        } else {
            fake_begin();
        }
    }
}

void fake_cut_after(int32_t operations) {
    operations_left = operations;
}

uint32_t fake_trained(void) {
    return trained;
}

uint32_t fake_position(void) {
    return mct_position();
}

uint32_t fake_restarts(void) {
    return restarts;
}

uint32_t fake_sent(uint8_t *to, uint32_t space) {
    const uint32_t count = sent_count < space ? sent_count : space;
    memcpy(to, sent, count);
    sent_count = 0;
    return count;
}

void fake_read_state(uint8_t *saved) {
    mct_state_save(saved);
}

int32_t fake_train_once(void) {
    mct_result result;
    memset(input, (int)trained, sizeof input);
    return (int32_t)mct_train((int32_t)(trained % MCT_CLASSES), (mct_learning_rate){1 << 30, 0},
                              &result);
}

int32_t fake_save(void) {
    uint8_t page[MCT_PAGE_BYTES];
    if (setjmp(power) != 0) {
        return -1;
    }
    return mct_store_save(&protocol.store, page) ? 1 : 0;
}

uint32_t fake_saved_bytes(void) {
    return MCT_SAVED_BYTES;
}

void fake_flip_flash(uint32_t offset, uint8_t bits) {
    slots[offset / MCT_SLOT_BYTES][offset % MCT_SLOT_BYTES] ^= bits;
}
