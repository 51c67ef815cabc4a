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
static uint32_t erasures[2][MCT_SLOT_BYTES / MCT_SLOT_ERASE_BYTES];
static uint8_t sent[1 << 16];
static uint32_t sent_count, restarts;
static int32_t operations_left = -1, good_operations = -1;
static int32_t later_cuts[512];
static uint32_t later_count, later_next;
static bool leaves_no_trace;
static bool is_weak[2][MCT_SLOT_BYTES / MCT_PAGE_BYTES];
static uint32_t weak_writes;
static jmp_buf power;

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
    if (operations_left < 0 || operations_left-- != 0) {
        return false;
    }
    if (later_next < later_count) {
        operations_left = later_cuts[later_next++];
    }
    return true;
}

/* Whether the flash reports an error in this operation, which then is done by half. */
static bool refuses(void) {
    return good_operations >= 0 && good_operations-- == 0;
}

const uint8_t *mct_board_slot(int32_t slot) {
    return slots[slot];
}

bool mct_board_slot_erase(int32_t slot, uint32_t offset, uint32_t count) {
    if (count == 0 || offset % MCT_SLOT_ERASE_BYTES != 0 || count % MCT_SLOT_ERASE_BYTES != 0 ||
        offset + count > MCT_SLOT_BYTES) {
        abort();
    }
    const bool cut = fails(), refused = refuses();
    const uint32_t units = count / MCT_SLOT_ERASE_BYTES;
    const uint32_t whole = cut || refused ? units / 2 : units; /* the last ones go first */
    for (uint32_t i = offset + count - whole * MCT_SLOT_ERASE_BYTES; i < offset + count; i++) {
        slots[slot][i] = 0xFF;
    }
    for (uint32_t i = 0; i < MCT_SLOT_ERASE_BYTES && whole < units; i += 3) {
        slots[slot][offset + (units - whole - 1u) * MCT_SLOT_ERASE_BYTES + i] = 0xFF;
    }
    if (cut) {
        longjmp(power, 2);
    }
    if (refused) {
        return false;
    }
    for (uint32_t i = offset; i < offset + count; i += MCT_SLOT_ERASE_BYTES) {
        erasures[slot][i / MCT_SLOT_ERASE_BYTES]++;
    }
    for (uint32_t i = offset; i < offset + count; i += MCT_PAGE_BYTES) {
        is_weak[slot][i / MCT_PAGE_BYTES] = false;
    }
    return true;
}

bool mct_board_slot_write(int32_t slot, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    const bool cut = fails(), refused = refuses();
    bool *const weak = &is_weak[slot][offset / MCT_PAGE_BYTES];
    weak_writes += *weak ? 1u : 0u;
    *weak |= cut && leaves_no_trace;
    const uint32_t part = cut && leaves_no_trace ? 0 : count / 3;
    for (uint32_t i = 0; i < (cut || refused ? part : count); i++) {
        if (offset % MCT_PAGE_BYTES != 0 || slots[slot][offset + i] != 0xFF) {
            abort(); /* flash that was not erased, or half a page */
        }
        slots[slot][offset + i] = bytes[i];
    }
    if (cut) {
        longjmp(power, 2);
    }
    return !refused;
}

/* ---- what the tests call ---- */

void fake_begin(void) {
    memset(&protocol, 0xA5, sizeof protocol);
    mct_protocol_start(&protocol);
}

void fake_erase_flash(void) {
    memset(slots, 0xFF, sizeof slots);
    memset(erasures, 0, sizeof erasures);
    memset(is_weak, 0, sizeof is_weak);
    weak_writes = 0;
    leaves_no_trace = false;
    operations_left = good_operations = -1;
    later_count = later_next = 0;
    restarts = 0;
    fake_steps = 0;
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

void fake_cuts(uint32_t count, const int32_t *operations) {
    memcpy(later_cuts, operations, count * sizeof *operations);
    later_count = count;
    later_next = 0;
    if (count > 0) {
        operations_left = later_cuts[later_next++];
    }
}

void fake_leave_no_trace(void) {
    leaves_no_trace = true;
}

uint32_t fake_weak_writes(void) {
    return weak_writes;
}

void fake_refuse_after(int32_t operations) {
    good_operations = operations;
}

int32_t fake_good_operations(void) {
    return good_operations;
}

int32_t fake_operations_left(void) {
    return operations_left;
}

uint32_t fake_trained(void) {
    return fake_steps;
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
    int8_t sample[MCT_INPUT_BYTES];
    memset(sample, (int)fake_steps, sizeof sample);
    (void)mct_feed(0, sample, sizeof sample);
    return (int32_t)mct_train((int32_t)(fake_steps % MCT_CLASSES), (mct_learning_rate){1 << 30, 0},
                              &result);
}

int32_t fake_save(void) {
    uint8_t page[MCT_PAGE_BYTES];
    if (setjmp(power) != 0) {
        return -1;
    }
    return mct_store_save(&protocol.store, MCT_ROLE_NONE, page) ? 1 : 0;
}

uint32_t fake_saved_bytes(void) {
    return MCT_SAVED_BYTES;
}

uint32_t fake_most_erased(void) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < sizeof erasures / sizeof erasures[0][0]; i++) {
        const uint32_t count = (&erasures[0][0])[i];
        most = count > most ? count : most;
    }
    return most;
}

uint32_t fake_flash(uint32_t offset) {
    return slots[offset / MCT_SLOT_BYTES][offset % MCT_SLOT_BYTES];
}

void fake_flip_flash(uint32_t offset, uint8_t bits) {
    slots[offset / MCT_SLOT_BYTES][offset % MCT_SLOT_BYTES] ^= bits;
}
