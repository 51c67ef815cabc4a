/* The trained state in two slots of flash: a power cut at any moment leaves the last saved state or
 * the new one.
 *
 * A slot has as many records as fit, one behind the other. A record: page 0 with "MCTF", the number
 * of the save and a CRC-32 of these; from page 1 on what mct_state_save writes, which has a checksum
 * of its own. A save writes from page 1 on, and page 0 last: before that the record is invalid.
 *
 * Saves go round through the records of both slots, so that all of the flash wears alike: each save
 * takes the record behind the newest, or the first of the other slot. It erases the units of
 * MCT_SLOT_ERASE_BYTES that begin within the record, and no other: they hold the oldest saves. What
 * of a record lies before them was erased for the one before. If that part is not blank, or may
 * have been written when the power failed, the record is passed over. */
#ifndef MCT_STORE_H
#define MCT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "mct_board_config.h"
#include "mct_model.h"

typedef struct {
    int16_t slot;    /* that holds the newest valid state of this model, -1 if none does */
    uint16_t record; /* of that state, in its slot */
    uint32_t number; /* of that save, counted from 1; 0 if there is none */
    bool foreign;    /* a slot holds a state of another model or scheme */
    bool saved;      /* since the start */
#ifdef MCT_REMEMBER
    uint32_t seen;   /* samples that were offered to the ring */
    uint32_t erased; /* how often a slot was */
    uint32_t end;    /* page of the slot where the next entry goes */
    uint32_t from;   /* page with which the latents since the newest state begin */
    uint16_t remembered[MCT_REMEMBER]; /* page of each latent in the ring */
#endif
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

#if defined(MCT_FORWARD_TIME) || defined(MCT_SHELF_BYTES)
/* The newest saved state, in flash; NULL if there is none. */
const uint8_t *mct_store_newest(const mct_store *store);
#endif

#ifdef MCT_FORWARD_TIME
/* The newest of a position. */
const uint8_t *mct_store_find(const mct_store *store, uint32_t position);
#endif

#ifdef MCT_REMEMBER
/* Offers a latent to the ring, which remembers it or not. page: as mct_store_save; a full slot is
 * left, with a save. false, and it was not offered, if the flash cannot be written. */
bool mct_store_offer(mct_store *store, const int8_t *latent, int32_t label, uint8_t *page);

/* What the training step at a position replays, in flash; NULL if nothing is remembered there. */
const int8_t *mct_store_recall(const mct_store *store, uint32_t position, int32_t *label);

/* Empties the ring. */
void mct_store_forget(mct_store *store);
#endif

#endif
