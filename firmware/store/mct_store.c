/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_store.h"

#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_bytes.h"
#include "mct_model.h"

#if MCT_SLOT_BYTES > 0

#define MCT_STORE_NUMBER 4u /* where the number of the save stands in page 0 */
#define MCT_STORE_CRC 8u

/* A save takes whole pages. */
#define MCT_RECORD_BYTES                                                                           \
    (MCT_PAGE_BYTES + (MCT_SAVED_BYTES + MCT_PAGE_BYTES - 1u) / MCT_PAGE_BYTES * MCT_PAGE_BYTES)
#define MCT_RECORDS (MCT_SLOT_BYTES / MCT_RECORD_BYTES)

_Static_assert(MCT_RECORDS >= 1u, "the state must fit in a slot");
_Static_assert(MCT_RECORDS <= UINT16_MAX, "a record's number has 16 bits");
_Static_assert(MCT_SLOT_BYTES % MCT_SLOT_ERASE_BYTES == 0 &&
                   MCT_SLOT_ERASE_BYTES % MCT_PAGE_BYTES == 0,
               "a slot has whole erase units, these have whole pages");

static const uint8_t *mct_store_record(int32_t slot, uint32_t record) {
    return mct_board_slot(slot) + record * MCT_RECORD_BYTES;
}

/* What the saved state is for in a record whose page 0 was written to its end, else -1. */
static int32_t mct_store_role_of(const uint8_t *page) {
    if (memcmp(page, "MCTF", 4) != 0) {
        return -1;
    }
    for (uint32_t role = MCT_ROLE_NONE; role <= MCT_ROLE_BETWEEN; role++) {
        if (mct_crc32(role, page, MCT_STORE_CRC) == mct_get32(page + MCT_STORE_CRC)) {
            return (int32_t)role;
        }
    }
    return -1;
}

/* The number of its save; 0 where there is none. */
static uint32_t mct_store_number(const uint8_t *page) {
    return mct_store_role_of(page) < 0 ? 0 : mct_get32(page + MCT_STORE_NUMBER);
}

bool mct_store_exists(void) {
    return true;
}

/* Takes note of a record. Those that are no newer are not read through, but for each slot's first. */
static void mct_store_look(mct_store *store, int32_t slot, uint32_t record) {
    const uint8_t *page = mct_store_record(slot, record);
    const uint32_t number = mct_store_number(page);
    const bool is_newer = store->slot < 0 || (int32_t)(number - store->number) > 0;
    if (number == 0 || (!is_newer && record != 0)) {
        return;
    }
    const mct_status status = mct_state_verify(page + MCT_PAGE_BYTES, MCT_SAVED_BYTES);
    if (status == MCT_OK && is_newer) {
        store->slot = (int16_t)slot;
        store->record = (uint16_t)record;
        store->number = number;
    }
    store->foreign |= status == MCT_ERROR_MODEL;
}

void mct_store_start(mct_store *store) {
    *store = (mct_store){.slot = -1};
    MCT_GUARD(true);
    for (int32_t slot = 0; slot < 2; slot++) {
        for (uint32_t record = MCT_RECORDS; record-- > 0;) {
            mct_store_look(store, slot, record);
        }
    }
    MCT_GUARD(false);
}

bool mct_store_load(mct_store *store) {
    if (store->slot < 0) {
        return false;
    }
    const uint8_t *saved = mct_store_record(store->slot, store->record) + MCT_PAGE_BYTES;
    return mct_state_load(saved, MCT_SAVED_BYTES) == MCT_OK;
}

#if defined(MCT_FORWARD_TIME) || defined(MCT_BACKING_BYTES) || defined(MCT_LEARN)
const uint8_t *mct_store_newest(const mct_store *store) {
    return store->slot < 0 ? NULL : mct_store_record(store->slot, store->record) + MCT_PAGE_BYTES;
}
#endif

#ifdef MCT_FORWARD_TIME
const uint8_t *mct_store_find(const mct_store *store, uint32_t position) {
    const uint8_t *found = NULL;
    uint32_t least_age = UINT32_MAX;
    MCT_GUARD(true);
    for (int32_t slot = 0; slot < 2; slot++) {
        for (uint32_t record = 0; record < MCT_RECORDS; record++) {
            const uint8_t *page = mct_store_record(slot, record), *saved = page + MCT_PAGE_BYTES;
            const uint32_t number = mct_store_number(page), age = store->number - number;
            if (number != 0 && age < least_age && mct_state_position(saved) == position &&
                mct_state_verify(saved, MCT_SAVED_BYTES) == MCT_OK) {
                found = saved;
                least_age = age;
            }
        }
    }
    MCT_GUARD(false);
    return found;
}
#endif

static bool mct_store_write(int32_t slot, uint32_t offset, const uint8_t *page) {
    return mct_board_slot_write(slot, offset, page, MCT_PAGE_BYTES) &&
           memcmp(mct_board_slot(slot) + offset, page, MCT_PAGE_BYTES) == 0;
}

/* The saved form from page 1 of a record on. */
static bool mct_store_write_state(int32_t slot, uint32_t record, uint8_t *page) {
    const uint32_t from = record * MCT_RECORD_BYTES + MCT_PAGE_BYTES;
    for (uint32_t offset = 0; offset < MCT_SAVED_BYTES; offset += MCT_PAGE_BYTES) {
        memset(page, 0xFF, MCT_PAGE_BYTES);
        mct_state_read(offset, MCT_PAGE_BYTES, page);
        if (!mct_store_write(slot, from + offset, page)) {
            return false;
        }
    }
    return true;
}

/* Where the first erase unit begins that does not begin before a place. */
static uint32_t mct_store_border(uint32_t offset) {
    return (offset + MCT_SLOT_ERASE_BYTES - 1u) / MCT_SLOT_ERASE_BYTES * MCT_SLOT_ERASE_BYTES;
}

static bool mct_store_is_blank(int32_t slot, uint32_t from, uint32_t to) {
    const uint8_t *bytes = mct_board_slot(slot);
    while (from < to && bytes[from] == 0xFF) {
        from++;
    }
    return from >= to;
}

/* Whether a record can be written when what begins within it is erased. */
static bool mct_store_has_room(const mct_store *store, uint32_t record) {
    const uint32_t from = record * MCT_RECORD_BYTES, border = mct_store_border(from);
    const uint32_t end = from + MCT_RECORD_BYTES;
    if (!store->saved && record == store->record + 1u && border != from) {
        return false; /* the power may have failed while it was written, and left weak bits */
    }
    return mct_store_is_blank(store->slot, from, border < end ? border : end);
}

#if defined(MCT_FORWARD_TIME) || defined(MCT_LEARN)
mct_role mct_store_role(const mct_store *store) {
    return store->slot < 0
               ? MCT_ROLE_NONE
               : (mct_role)mct_store_role_of(mct_store_record(store->slot, store->record));
}
#endif

#ifdef MCT_LEARN
bool mct_store_load_previous(mct_store *store) {
    const uint8_t *found = NULL;
    MCT_GUARD(true);
    for (int32_t slot = 0; slot < 2; slot++) {
        for (uint32_t record = 0; record < MCT_RECORDS; record++) {
            const uint8_t *page = mct_store_record(slot, record), *saved = page + MCT_PAGE_BYTES;
            const uint32_t number = mct_store_number(page);
            if (number != 0 && number + 1u == store->number &&
                mct_state_verify(saved, MCT_SAVED_BYTES) == MCT_OK) {
                found = saved;
            }
        }
    }
    MCT_GUARD(false);
    return found != NULL && mct_state_load(found, MCT_SAVED_BYTES) == MCT_OK;
}
#endif

#ifdef MCT_FORWARD_TIME

/* Whether the first record of a slot is erased with another one. */
static bool mct_store_is_at_begin(uint32_t record) {
    return record * MCT_RECORD_BYTES < mct_store_border(MCT_RECORD_BYTES);
}

/* Whether a save into the first record of a slot would erase the state before the windows between which
 * the newest one is: *record is where it lies. */
static bool mct_store_would_erase(const mct_store *store, int32_t slot, uint32_t *record) {
    if (mct_store_role(store) != MCT_ROLE_BETWEEN) {
        return false;
    }
    uint32_t least_age = UINT32_MAX;
    bool is_there = false;
    for (int32_t other = 0; other < 2; other++) {
        for (uint32_t i = 0; i < MCT_RECORDS; i++) {
            const uint8_t *page = mct_store_record(other, i);
            const uint32_t number = mct_store_number(page), age = store->number - number;
            if (number != 0 && age < least_age && mct_store_role_of(page) == MCT_ROLE_BEFORE) {
                least_age = age;
                is_there = other == slot && mct_store_is_at_begin(i);
                *record = i;
            }
        }
    }
    return is_there;
}

/* Makes the state before the windows the newest one, so that the one between them can be erased. false,
 * and nothing changes, if weights that are not trained now lie in the latter alone. */
static bool mct_store_step_back(mct_store *store, uint32_t record) {
    const int32_t slot = store->slot == 0 ? 1 : 0;
#ifdef MCT_BACKING_BYTES
    uint8_t now[MCT_STATE_HEADER_BYTES], then[MCT_STATE_HEADER_BYTES]; /* with the checksums */
    mct_state_read(0, sizeof now, now);
    mct_shelve(mct_store_record(slot, record) + MCT_PAGE_BYTES);
    mct_state_read(0, sizeof then, then);
    if (memcmp(now, then, sizeof now) != 0) {
        mct_shelve(mct_store_newest(store));
        return false;
    }
#endif
    store->slot = (int16_t)slot;
    store->record = (uint16_t)record;
    return true;
}

/* Whether the next save goes to the first record of the newest state's own slot. */
static bool mct_store_stays(mct_store *store) {
    uint32_t record;
    if (!mct_store_would_erase(store, store->slot == 0 ? 1 : 0, &record)) {
        return false;
    }
    return !mct_store_is_at_begin(store->record) || mct_store_step_back(store, record);
}
#endif

/* Where the next save goes: the record behind the newest that can be written, else the first one of
 * the other slot. */
static void mct_store_next(mct_store *store, int32_t *slot, uint32_t *record) {
    *slot = store->slot == 0 ? 1 : 0;
    *record = 0;
    if (store->slot < 0) {
        return;
    }
    for (uint32_t next = store->record + 1u; next < MCT_RECORDS; next++) {
        if (mct_store_has_room(store, next)) {
            *slot = store->slot;
            *record = next;
            return;
        }
    }
#ifdef MCT_FORWARD_TIME
    const int32_t own = store->slot;
    if (mct_store_stays(store)) {
        *slot = own;
    }
#endif
}

static bool mct_store_erase(int32_t slot, uint32_t record) {
    const uint32_t from = mct_store_border(record * MCT_RECORD_BYTES);
    const uint32_t end = mct_store_border((record + 1u) * MCT_RECORD_BYTES);
    return from >= end || mct_board_slot_erase(slot, from, end - from);
}

bool mct_store_save(mct_store *store, mct_role role, uint8_t *page) {
    int32_t slot;
    uint32_t record;
    MCT_GUARD(true);
    mct_store_next(store, &slot, &record);
    MCT_GUARD(false);
    uint32_t number = store->number + 1;
    if (number == 0) {
        number = 1;
    }
    if (!mct_store_erase(slot, record) || !mct_store_write_state(slot, record, page)) {
        return false;
    }
    memset(page, 0xFF, MCT_PAGE_BYTES);
    memcpy(page, "MCTF", 4);
    mct_put32(page + MCT_STORE_NUMBER, number);
    mct_put32(page + MCT_STORE_CRC, mct_crc32((uint32_t)role, page, MCT_STORE_CRC));
    if (!mct_store_write(slot, record * MCT_RECORD_BYTES, page)) {
        return false;
    }
    store->slot = (int16_t)slot;
    store->record = (uint16_t)record;
    store->number = number;
    store->saved = true;
#ifdef MCT_BACKING_BYTES
    mct_shelve(
        mct_store_newest(store)); /* the record that has the weights so far comes to its end */
#endif
    return true;
}

#else

bool mct_store_exists(void) {
    return false;
}

#if defined(MCT_FORWARD_TIME) || defined(MCT_BACKING_BYTES) || defined(MCT_LEARN)
const uint8_t *mct_store_newest(const mct_store *store) {
    (void)store;
    return NULL;
}
#endif

#if defined(MCT_FORWARD_TIME) || defined(MCT_LEARN)
mct_role mct_store_role(const mct_store *store) {
    (void)store;
    return MCT_ROLE_NONE;
}
#endif

#ifdef MCT_LEARN
bool mct_store_load_previous(mct_store *store) {
    (void)store;
    return false;
}
#endif

#ifdef MCT_FORWARD_TIME

const uint8_t *mct_store_find(const mct_store *store, uint32_t position) {
    (void)store;
    (void)position;
    return NULL;
}
#endif

void mct_store_start(mct_store *store) {
    *store = (mct_store){.slot = -1};
}

bool mct_store_load(mct_store *store) {
    (void)store;
    return false;
}

bool mct_store_save(mct_store *store, mct_role role, uint8_t *page) {
    (void)store;
    (void)role;
    (void)page;
    return false;
}

#endif
