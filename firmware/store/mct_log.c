/* SPDX-License-Identifier: Apache-2.0 */
/* mct_store.h where latents are remembered: a log of states and latents in each of two slots. */
#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_bytes.h"
#include "mct_model.h"
#include "mct_reservoir.h"
#include "mct_store.h"

#define MCT_LOG_BYTES 32u /* of an entry's header */
#define MCT_LOG_CRC 4u    /* of the first page from here + 4 on */
#define MCT_LOG_SUM 8u    /* of a latent: the CRC-32 of its bytes */
#define MCT_LOG_KIND 12u
#define MCT_LOG_SLOT 14u   /* of a latent, in the ring */
#define MCT_LOG_ROLE 14u   /* a state's */
#define MCT_LOG_NUMBER 16u /* of the save, or of the sample */
#define MCT_LOG_LABEL 20u
#define MCT_LOG_SEEN 20u /* a state's, in the place of the label */
#define MCT_LOG_FROM 24u /* with this page begin the latents since the state before */
#define MCT_LOG_RING 26u /* MCT_RING_ID: of how many slots, and of what */
#define MCT_LOG_ERASED 28u

#define MCT_LOG_STATE 1u
#define MCT_LOG_LATENT 2u
#define MCT_NO_PAGE UINT16_MAX

#define MCT_PAGES(payload) ((MCT_LOG_BYTES + (payload) + MCT_PAGE_BYTES - 1u) / MCT_PAGE_BYTES)
#define MCT_STATE_PAGES MCT_PAGES(MCT_SAVED_BYTES)
#define MCT_LATENT_PAGES MCT_PAGES(MCT_LATENT_BYTES)
#define MCT_MOST_PAGES (MCT_STATE_PAGES > MCT_LATENT_PAGES ? MCT_STATE_PAGES : MCT_LATENT_PAGES)
#define MCT_SLOT_PAGES (MCT_SLOT_BYTES / MCT_PAGE_BYTES)

#ifdef MCT_FORWARD_TIME
#define MCT_LOG_STATES 4u /* that a slot has room for, beside the ring: two that a choice needs */
#else
#define MCT_LOG_STATES 2u
#endif

_Static_assert(MCT_REMEMBER *MCT_LATENT_PAGES + MCT_LOG_STATES * MCT_STATE_PAGES +
                       MCT_LATENT_PAGES <=
                   MCT_SLOT_PAGES,
               "the ring and the states must fit in a slot, and something new");
_Static_assert(MCT_SLOT_PAGES < MCT_NO_PAGE, "a page's number has 16 bits");

static const uint8_t *mct_log_page(int32_t slot, uint32_t page) {
    return mct_board_slot(slot) + page * MCT_PAGE_BYTES;
}

bool mct_store_exists(void) {
    return true;
}

/* ---- reading ---- */

/* What a page begins, as far as its first bytes tell; 0: no entry. Since the first page of an entry
 * is written first, the others of one that begins so are its own, whether they were written or not:
 * no walk through a log looks at them, and what they hold tells nothing. */
static uint32_t mct_log_kind(int32_t slot, uint32_t page) {
    const uint8_t *entry = mct_log_page(slot, page);
    const uint32_t kind = memcmp(entry, "MCTL", 4) == 0 ? mct_get16(entry + MCT_LOG_KIND) : 0;
    const bool is_state = kind == MCT_LOG_STATE && page + MCT_STATE_PAGES <= MCT_SLOT_PAGES;
    const bool is_latent = kind == MCT_LOG_LATENT && page + MCT_LATENT_PAGES <= MCT_SLOT_PAGES;
    return is_state || is_latent ? kind : 0;
}

static uint32_t mct_log_pages(uint32_t kind) {
    return kind == MCT_LOG_STATE ? MCT_STATE_PAGES : kind == MCT_LOG_LATENT ? MCT_LATENT_PAGES : 1u;
}

/* Whether the first page of an entry was written to its end. */
static bool mct_log_is_sound(int32_t slot, uint32_t page) {
    const uint8_t *entry = mct_log_page(slot, page);
    return mct_crc32(0, entry + MCT_LOG_SUM, MCT_PAGE_BYTES - MCT_LOG_SUM) ==
           mct_get32(entry + MCT_LOG_CRC);
}

/* Whether a state of this model is there, whole and undamaged. */
static bool mct_log_is_state(mct_store *store, int32_t slot, uint32_t page) {
    const uint8_t *saved = mct_log_page(slot, page) + MCT_LOG_BYTES;
    const mct_status status = mct_state_verify(saved, MCT_SAVED_BYTES);
    store->foreign |= status == MCT_ERROR_MODEL;
    return status == MCT_OK;
}

/* The same of a latent. */
static bool mct_log_is_latent(int32_t slot, uint32_t page) {
    const uint8_t *entry = mct_log_page(slot, page);
    return mct_log_is_sound(slot, page) &&
           mct_crc32(0, entry + MCT_LOG_BYTES, MCT_LATENT_BYTES) == mct_get32(entry + MCT_LOG_SUM);
}

static int32_t mct_log_label(const mct_store *store, uint32_t page) {
    return (int32_t)mct_get32(mct_log_page(store->slot, page) + MCT_LOG_LABEL);
}

static void mct_log_clear(mct_store *store) {
    for (uint32_t i = 0; i < MCT_REMEMBER; i++) {
        store->remembered[i] = MCT_NO_PAGE;
    }
}

/* Takes note of the newest state in both slots, or of the newest before the one that is noted: of
 * equal numbers one is torn, and the last is looked at first. Returns whether there is one. */
static bool mct_log_look(mct_store *store) {
    const int32_t last_slot = store->slot;
    const uint32_t last_page = store->record, last_number = store->number;
    store->slot = -1;
    for (int32_t slot = 0; slot < 2; slot++) {
        uint32_t kind;
        for (uint32_t page = 0; page < MCT_SLOT_PAGES; page += mct_log_pages(kind)) {
            kind = mct_log_kind(slot, page);
            const uint32_t number = mct_get32(mct_log_page(slot, page) + MCT_LOG_NUMBER);
            const int32_t later = (int32_t)(number - last_number);
            const bool is_before = slot < last_slot || (slot == last_slot && page < last_page);
            const bool is_older = last_slot < 0 || later < 0 || (later == 0 && is_before);
            const bool is_newest = store->slot < 0 || (int32_t)(number - store->number) >= 0;
            if (kind == MCT_LOG_STATE && is_older && is_newest && mct_log_is_sound(slot, page)) {
                store->slot = (int16_t)slot;
                store->record = (uint16_t)page;
                store->number = number;
            }
        }
    }
    return store->slot >= 0;
}

#if defined(MCT_FORWARD_TIME) || defined(MCT_BACKING_BYTES) || defined(MCT_LEARN)
const uint8_t *mct_store_newest(const mct_store *store) {
    return store->slot < 0 ? NULL : mct_log_page(store->slot, store->record) + MCT_LOG_BYTES;
}
#endif

#if defined(MCT_FORWARD_TIME) || defined(MCT_LEARN)
static mct_role mct_log_role(int32_t slot, uint32_t page) {
    return (mct_role)mct_get16(mct_log_page(slot, page) + MCT_LOG_ROLE);
}

mct_role mct_store_role(const mct_store *store) {
    return store->slot < 0 ? MCT_ROLE_NONE : mct_log_role(store->slot, store->record);
}
#endif

#ifdef MCT_FORWARD_TIME
/* Where the newest state of a role is in the slot of the newest one; MCT_NO_PAGE if it is not. */
static uint32_t mct_log_find_role(mct_store *store, mct_role role) {
    uint32_t found = MCT_NO_PAGE, kind;
    MCT_GUARD(true);
    for (uint32_t page = 0; page <= store->record; page += mct_log_pages(kind)) {
        kind = mct_log_kind(store->slot, page);
        if (kind == MCT_LOG_STATE && mct_log_role(store->slot, page) == role &&
            mct_log_is_sound(store->slot, page) && mct_log_is_state(store, store->slot, page)) {
            found = page;
        }
    }
    MCT_GUARD(false);
    return found;
}

const uint8_t *mct_store_find(const mct_store *store, uint32_t position) {
    const uint8_t *found = NULL;
    uint32_t least_age = UINT32_MAX, kind;
    MCT_GUARD(true);
    for (int32_t slot = 0; slot < 2; slot++) {
        for (uint32_t page = 0; page < MCT_SLOT_PAGES; page += mct_log_pages(kind)) {
            kind = mct_log_kind(slot, page);
            const uint8_t *entry = mct_log_page(slot, page), *saved = entry + MCT_LOG_BYTES;
            const uint32_t age = store->number - mct_get32(entry + MCT_LOG_NUMBER);
            if (kind == MCT_LOG_STATE && age < least_age && mct_state_position(saved) == position &&
                mct_log_is_sound(slot, page) &&
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

void mct_store_start(mct_store *store) {
    memset(store, 0, sizeof *store);
    store->slot = -1;
    mct_log_clear(store);
    MCT_GUARD(true);
    while (mct_log_look(store) && !mct_log_is_state(store, store->slot, store->record)) {
    }
    MCT_GUARD(false);
    if (store->slot < 0) {
        store->number = 0;
    }
}

/* Takes note of the latents that belong to a state, in the order in which they were written. Those
 * that it does not count were not written to their end. */
static void mct_log_take(mct_store *store, uint32_t page, uint32_t state) {
    const uint8_t *header = mct_log_page(store->slot, state);
    const uint32_t from = mct_get16(header + MCT_LOG_FROM);
    page = page < from ? from : page;
    while (page < state) {
        const uint32_t kind = mct_log_kind(store->slot, page);
        const uint8_t *entry = mct_log_page(store->slot, page);
        const uint32_t place = mct_get16(entry + MCT_LOG_SLOT);
        const bool counts = mct_get32(entry + MCT_LOG_NUMBER) < mct_get32(header + MCT_LOG_SEEN);
        if (kind == MCT_LOG_LATENT && place < MCT_REMEMBER && counts) {
            store->remembered[place] = (uint16_t)page;
        }
        page += mct_log_pages(kind);
    }
}

/* Whether a state came to its end: the one behind it has another number. */
static bool mct_log_is_over(const mct_store *store, uint32_t state, uint32_t next) {
    const uint32_t number = mct_get32(mct_log_page(store->slot, state) + MCT_LOG_NUMBER);
    return mct_get32(mct_log_page(store->slot, next) + MCT_LOG_NUMBER) != number;
}

/* What the ring held at the newest state. What is damaged is not there. */
static void mct_log_take_all(mct_store *store) {
    uint32_t begin = 0, state = MCT_NO_PAGE, kind;
    for (uint32_t page = 0; page <= store->record; page += mct_log_pages(kind)) {
        kind = mct_log_kind(store->slot, page);
        if (kind == MCT_LOG_STATE && mct_log_is_sound(store->slot, page)) {
            if (state != MCT_NO_PAGE && mct_log_is_over(store, state, page)) {
                mct_log_take(store, begin, state);
                begin = state + MCT_STATE_PAGES;
            }
            state = page;
        }
    }
    mct_log_take(store, begin, store->record);
    for (uint32_t i = 0; i < MCT_REMEMBER; i++) {
        const uint16_t page = store->remembered[i];
        const bool is_older = i >= store->seen; /* of a ring that was emptied since */
        if (page != MCT_NO_PAGE && (is_older || !mct_log_is_latent(store->slot, page))) {
            store->remembered[i] = MCT_NO_PAGE;
        }
    }
}

static bool mct_log_is_blank(int32_t slot, uint32_t page) {
    const uint8_t *bytes = mct_log_page(slot, page);
    uint32_t count = 0;
    while (count < MCT_PAGE_BYTES && bytes[count] == 0xFF) {
        count++;
    }
    return count == MCT_PAGE_BYTES;
}

/* Where entries can be written after a restart: as many pages behind what is there as an entry may
 * have. The power may have failed in the first page of one more, and have left weak bits, which read
 * as erased now, or as another page, and otherwise later; whatever they will read as, no walk steps
 * over what is written from here on. */
static uint32_t mct_log_end(int32_t slot) {
    uint32_t end = 0, step;
    for (uint32_t page = 0; page < MCT_SLOT_PAGES; page += step) {
        const uint32_t kind = mct_log_kind(slot, page);
        const bool is_entry = kind != 0 && mct_log_is_sound(slot, page);
        step = is_entry ? mct_log_pages(kind) : 1u;
        if (is_entry) {
            end = page + step;
        } else if (!mct_log_is_blank(slot, page)) {
            end = page; /* the first page of an entry, if it is one */
        }
    }
    return end + MCT_MOST_PAGES;
}

bool mct_store_load(mct_store *store) {
    if (store->slot < 0) {
        return false;
    }
    const uint8_t *newest = mct_log_page(store->slot, store->record);
    if (mct_state_load(newest + MCT_LOG_BYTES, MCT_SAVED_BYTES) != MCT_OK) {
        return false;
    }
    store->seen = mct_get32(newest + MCT_LOG_SEEN);
    store->erased = mct_get32(newest + MCT_LOG_ERASED);
    MCT_GUARD(true);
    mct_log_take_all(store);
    store->from = store->end = mct_log_end(store->slot);
    MCT_GUARD(false);
    if (mct_get16(newest + MCT_LOG_RING) != MCT_RING_ID) {
        mct_store_forget(store); /* another firmware's ring, of the same model */
    }
    return true;
}

#ifdef MCT_LEARN
/* Where the state lies that was saved before the newest one, in its slot; MCT_NO_PAGE if it is gone. */
static uint32_t mct_log_previous(mct_store *store) {
    uint32_t found = MCT_NO_PAGE, kind;
    for (uint32_t page = 0; page < store->record; page += mct_log_pages(kind)) {
        kind = mct_log_kind(store->slot, page);
        const uint32_t number = mct_get32(mct_log_page(store->slot, page) + MCT_LOG_NUMBER);
        if (kind == MCT_LOG_STATE && number + 1u == store->number &&
            mct_log_is_sound(store->slot, page) && mct_log_is_state(store, store->slot, page)) {
            found = page;
        }
    }
    return found;
}

bool mct_store_load_previous(mct_store *store) {
    if (store->slot < 0) {
        return false;
    }
    MCT_GUARD(true);
    const uint32_t page = mct_log_previous(store);
    MCT_GUARD(false);
    if (page == MCT_NO_PAGE) {
        return false;
    }
    const uint32_t erased = store->erased;
    store->record = (uint16_t)page;
    mct_log_clear(store);
    (void)mct_store_load(store); /* it was verified */
    store->erased = erased;
    store->end = MCT_SLOT_PAGES; /* the ring of then is made anew, in the other slot */
    return true;
}
#endif

/* ---- writing ---- */

static bool mct_log_write(int32_t slot, uint32_t page, const uint8_t *bytes) {
    const uint32_t offset = page * MCT_PAGE_BYTES;
    return page < MCT_SLOT_PAGES && mct_board_slot_write(slot, offset, bytes, MCT_PAGE_BYTES) &&
           memcmp(mct_board_slot(slot) + offset, bytes, MCT_PAGE_BYTES) == 0;
}

/* `count` bytes of what an entry holds; a state's where there is no latent. */
static void mct_log_read(const int8_t *latent, uint32_t offset, uint32_t count, uint8_t *to) {
    if (latent == NULL) {
        mct_state_read(offset, count, to);
        return;
    }
    const uint32_t left = MCT_LATENT_BYTES - offset;
    memcpy(to, latent + offset, count < left ? count : left);
}

/* An entry's pages, in their order: the first one says how many there are, and the checksum of what
 * they hold, without which there is no entry. header: from MCT_LOG_SUM on. */
static bool mct_log_append(int32_t slot, uint32_t at, uint32_t pages, const int8_t *latent,
                           const uint8_t *header, uint8_t *page) {
    memset(page, 0xFF, MCT_PAGE_BYTES);
    memcpy(page, "MCTL", 4);
    memcpy(page + MCT_LOG_SUM, header, MCT_LOG_BYTES - MCT_LOG_SUM);
    mct_log_read(latent, 0, MCT_PAGE_BYTES - MCT_LOG_BYTES, page + MCT_LOG_BYTES);
    mct_put32(page + MCT_LOG_CRC, mct_crc32(0, page + MCT_LOG_SUM, MCT_PAGE_BYTES - MCT_LOG_SUM));
    if (!mct_log_write(slot, at, page)) {
        return false;
    }
    for (uint32_t i = 1; i < pages; i++) {
        memset(page, 0xFF, MCT_PAGE_BYTES);
        mct_log_read(latent, i * MCT_PAGE_BYTES - MCT_LOG_BYTES, MCT_PAGE_BYTES, page);
        if (!mct_log_write(slot, at + i, page)) {
            return false;
        }
    }
    return true;
}

static bool mct_log_append_state(const mct_store *store, int32_t slot, uint32_t at, mct_role role,
                                 uint8_t *page) {
    const bool moves = slot != store->slot;
    uint8_t header[MCT_LOG_BYTES] = {0};
    mct_put16(header + MCT_LOG_KIND, MCT_LOG_STATE);
    mct_put16(header + MCT_LOG_ROLE, (uint16_t)role);
    mct_put32(header + MCT_LOG_NUMBER, store->number + 1u);
    mct_put32(header + MCT_LOG_SEEN, store->seen);
    mct_put16(header + MCT_LOG_FROM, (uint16_t)(moves ? 0 : store->from));
    mct_put16(header + MCT_LOG_RING, MCT_RING_ID);
    mct_put32(header + MCT_LOG_ERASED, store->erased + moves);
    return mct_log_append(slot, at, MCT_STATE_PAGES, NULL, header + MCT_LOG_SUM, page);
}

static void mct_log_saved(mct_store *store, uint32_t at) {
    store->record = (uint16_t)at;
    store->number++;
    store->from = store->end = at + MCT_STATE_PAGES;
#ifdef MCT_BACKING_BYTES
    mct_shelve(
        mct_store_newest(store)); /* the entry that has the weights so far comes to its end */
#endif
}

/* Copies an entry to another slot; *at goes behind it. */
static bool mct_log_copy(const mct_store *store, uint32_t from, uint32_t pages, uint32_t *at,
                         uint8_t *page) {
    const int32_t slot = store->slot == 0 ? 1 : 0;
    for (uint32_t i = 0; i < pages; i++) {
        memcpy(page, mct_log_page(store->slot, from + i), MCT_PAGE_BYTES);
        if (!mct_log_write(slot, (*at)++, page)) {
            return false;
        }
    }
    return true;
}

/* The states that a choice needs, before all latents: they have none. */
static bool mct_log_copy_states(mct_store *store, uint32_t *at, uint8_t *page) {
#ifdef MCT_FORWARD_TIME
    for (int32_t role = MCT_ROLE_BEFORE; role <= MCT_ROLE_BETWEEN && store->slot >= 0; role++) {
        const uint32_t from = mct_log_find_role(store, (mct_role)role);
        if (from != MCT_NO_PAGE && !mct_log_copy(store, from, MCT_STATE_PAGES, at, page)) {
            return false;
        }
    }
#else
    (void)store;
    (void)at;
    (void)page;
#endif
    return true;
}

static bool mct_log_copy_ring(const mct_store *store, uint32_t *at, uint8_t *page) {
    for (uint32_t i = 0; i < MCT_REMEMBER; i++) {
        const uint32_t from = store->remembered[i];
        if (from != MCT_NO_PAGE && !mct_log_copy(store, from, MCT_LATENT_PAGES, at, page)) {
            return false;
        }
    }
    return true;
}

/* All that counts goes to the other slot, and the state behind it; until that is there, this slot
 * holds what was saved. */
static bool mct_log_move(mct_store *store, mct_role role, uint8_t *page) {
    const int32_t slot = store->slot == 0 ? 1 : 0;
    uint32_t at = 0;
    if (!mct_board_slot_erase(slot, 0, MCT_SLOT_BYTES) || !mct_log_copy_states(store, &at, page)) {
        return false;
    }
    uint32_t moved = at;
    if (!mct_log_copy_ring(store, &at, page) ||
        !mct_log_append_state(store, slot, at, role, page)) {
        return false;
    }
    for (uint32_t i = 0; i < MCT_REMEMBER; i++) {
        if (store->remembered[i] != MCT_NO_PAGE) {
            store->remembered[i] = (uint16_t)moved;
            moved += MCT_LATENT_PAGES;
        }
    }
    store->slot = (int16_t)slot;
    store->erased++;
    mct_log_saved(store, at);
    return true;
}

static bool mct_log_has_room(const mct_store *store, uint32_t pages) {
    return store->slot >= 0 && store->end + pages <= MCT_SLOT_PAGES;
}

bool mct_store_save(mct_store *store, mct_role role, uint8_t *page) {
    if (!mct_log_has_room(store, MCT_STATE_PAGES)) {
        return mct_log_move(store, role, page);
    }
    const uint32_t at = store->end;
    store->end += MCT_STATE_PAGES; /* what fails here is passed over */
    if (!mct_log_append_state(store, store->slot, at, role, page)) {
        return false;
    }
    mct_log_saved(store, at);
    return true;
}

#ifdef MCT_LEARN
bool mct_store_make_room(mct_store *store, uint32_t latents, uint8_t *page) {
    const uint32_t pages = latents * MCT_LATENT_PAGES + MCT_STATE_PAGES;
    return mct_log_has_room(store, pages + MCT_STATE_PAGES) ||
           (mct_log_move(store, MCT_ROLE_NONE, page) && mct_log_has_room(store, pages));
}
#endif

/* ---- the ring ---- */

#ifdef MCT_LEARN
bool mct_store_forget_label(mct_store *store, int32_t label, uint8_t *page) {
    bool is_less = false;
    for (uint32_t i = 0; i < MCT_REMEMBER; i++) {
        const uint16_t at = store->remembered[i];
        const bool is_other = at == MCT_NO_PAGE || mct_log_label(store, at) != label;
        store->remembered[i] = is_other ? at : MCT_NO_PAGE;
        is_less |= !is_other;
    }
    return is_less ? mct_log_move(store, MCT_ROLE_NONE, page)
                   : mct_store_save(store, MCT_ROLE_NONE, page);
}
#endif

void mct_store_forget(mct_store *store) {
    mct_log_clear(store);
    store->seen = 0;
    store->from = store->end;
}

bool mct_store_offer(mct_store *store, const int8_t *latent, int32_t label, uint8_t *page) {
    const uint32_t slot = mct_offer_slot(store->seen, MCT_REMEMBER);
    if (slot < MCT_REMEMBER) {
        if (!mct_log_has_room(store, MCT_LATENT_PAGES) &&
            !mct_log_move(store, MCT_ROLE_NONE, page)) {
            return false;
        }
        uint8_t header[MCT_LOG_BYTES] = {0};
        mct_put32(header + MCT_LOG_SUM, mct_crc32(0, (const uint8_t *)latent, MCT_LATENT_BYTES));
        mct_put16(header + MCT_LOG_KIND, MCT_LOG_LATENT);
        mct_put16(header + MCT_LOG_SLOT, (uint16_t)slot);
        mct_put32(header + MCT_LOG_NUMBER, store->seen);
        mct_put32(header + MCT_LOG_LABEL, (uint32_t)label);
        const uint32_t at = store->end;
        store->end += MCT_LATENT_PAGES;
        if (!mct_log_append(store->slot, at, MCT_LATENT_PAGES, latent, header + MCT_LOG_SUM,
                            page)) {
            return false;
        }
        store->remembered[slot] = (uint16_t)at;
    }
    store->seen = mct_offered(store->seen);
    return true;
}

const int8_t *mct_store_recall(const mct_store *store, uint32_t position, int32_t *label) {
    if (store->seen == 0) {
        return NULL;
    }
    const uint16_t page = store->remembered[mct_replay_slot(position, store->seen, MCT_REMEMBER)];
    if (page == MCT_NO_PAGE) {
        return NULL;
    }
    *label = mct_log_label(store, page);
    return (const int8_t *)mct_log_page(store->slot, page) + MCT_LOG_BYTES;
}
