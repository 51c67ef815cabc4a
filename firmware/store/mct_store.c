#include "mct_store.h"

#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_bytes.h"
#include "mct_model.h"

#if MCT_SLOT_BYTES > 0

#define MCT_STORE_NUMBER 4u /* where the number of the save stands in page 0 */
#define MCT_STORE_CRC 8u
#define MCT_STORE_HEADER_BYTES 12u

_Static_assert(MCT_PAGE_BYTES + MCT_SAVED_BYTES <= MCT_SLOT_BYTES, "the state must fit in a slot");

/* The number of the save in a slot whose page 0 was written to its end, else 0. */
static uint32_t mct_store_number(int32_t slot) {
    const uint8_t *page = mct_board_slot(slot);
    if (memcmp(page, "MCTF", 4) != 0 ||
        mct_crc32(0, page, MCT_STORE_CRC) != mct_get32(page + MCT_STORE_CRC)) {
        return 0;
    }
    return mct_get32(page + MCT_STORE_NUMBER);
}

bool mct_store_exists(void) {
    return true;
}

void mct_store_start(mct_store *store) {
    *store = (mct_store){.slot = -1};
    for (int32_t slot = 0; slot < 2; slot++) {
        const uint32_t number = mct_store_number(slot);
        if (number == 0) {
            continue;
        }
        const mct_status status =
            mct_state_verify(mct_board_slot(slot) + MCT_PAGE_BYTES, MCT_SAVED_BYTES);
        if (status == MCT_OK && (store->slot < 0 || (int32_t)(number - store->number) > 0)) {
            store->slot = slot;
            store->number = number;
        }
        store->foreign |= status == MCT_ERROR_MODEL;
    }
}

bool mct_store_load(mct_store *store) {
    if (store->slot < 0) {
        return false;
    }
    const uint8_t *saved = mct_board_slot(store->slot) + MCT_PAGE_BYTES;
    return mct_state_load(saved, MCT_SAVED_BYTES) == MCT_OK;
}

static bool mct_store_write(int32_t slot, uint32_t offset, const uint8_t *page) {
    return mct_board_slot_write(slot, offset, page, MCT_PAGE_BYTES) &&
           memcmp(mct_board_slot(slot) + offset, page, MCT_PAGE_BYTES) == 0;
}

/* The saved form from page 1 on. */
static bool mct_store_write_state(int32_t slot, uint8_t *page) {
    for (uint32_t offset = 0; offset < MCT_SAVED_BYTES; offset += MCT_PAGE_BYTES) {
        memset(page, 0xFF, MCT_PAGE_BYTES);
        mct_state_read(offset, MCT_PAGE_BYTES, page);
        if (!mct_store_write(slot, MCT_PAGE_BYTES + offset, page)) {
            return false;
        }
    }
    return true;
}

bool mct_store_save(mct_store *store, uint8_t *page) {
    const int32_t slot = store->slot == 0 ? 1 : 0;
    uint32_t number = store->number + 1;
    if (number == 0) {
        number = 1;
    }
    if (!mct_board_slot_erase(slot) || !mct_store_write_state(slot, page)) {
        return false;
    }
    memset(page, 0xFF, MCT_PAGE_BYTES);
    memcpy(page, "MCTF", 4);
    mct_put32(page + MCT_STORE_NUMBER, number);
    mct_put32(page + MCT_STORE_CRC, mct_crc32(0, page, MCT_STORE_CRC));
    if (!mct_store_write(slot, 0, page)) {
        return false;
    }
    store->slot = slot;
    store->number = number;
    return true;
}

#else

bool mct_store_exists(void) {
    return false;
}

void mct_store_start(mct_store *store) {
    *store = (mct_store){.slot = -1};
}

bool mct_store_load(mct_store *store) {
    (void)store;
    return false;
}

bool mct_store_save(mct_store *store, uint8_t *page) {
    (void)store;
    (void)page;
    return false;
}

#endif
