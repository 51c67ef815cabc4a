/* The trained state in two slots of flash: a power cut at any moment leaves the last saved state or
 * the new one.
 *
 * A slot: page 0 with "MCTF", the number of the save and a CRC-32 of these; from page 1 on what
 * mct_state_save writes, which has a checksum of its own. A save erases the slot that does not hold
 * the newest state, writes from page 1 on, and page 0 last: before that the slot is invalid. */
#ifndef MCT_STORE_H
#define MCT_STORE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int32_t slot;    /* that holds the newest valid state of this model, -1 if none does */
    uint32_t number; /* of that save, counted from 1; 0 if there is none */
    bool foreign;    /* a slot holds a state of another model or scheme */
} mct_store;

/* Looks into both slots. */
void mct_store_start(mct_store *store);

/* Takes over the newest state. false, and nothing changes, if there is none. */
bool mct_store_load(mct_store *store);

/* Saves the state. page: MCT_PAGE_BYTES to work in. false, and the last saved state is still there,
 * if the flash cannot be written. */
bool mct_store_save(mct_store *store, uint8_t *page);

/* Whether this board has slots that are large enough. */
bool mct_store_exists(void);

#endif
