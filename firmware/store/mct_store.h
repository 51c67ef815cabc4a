/* SPDX-License-Identifier: Apache-2.0 */
/* The trained state in two slots of flash: a power cut at any moment leaves the last saved state or
 * the new one.
 *
 * A slot has as many records as fit, one behind the other. A record: page 0 with "MCTF", the number
 * of the save and a CRC-32 of these; from page 1 on what mct_state_save writes, which has a checksum
 * of its own. A save writes from page 1 on, and page 0 last: before that the record is invalid.
 *
 * Saves go round through the records of both slots, so that all of the flash wears alike. Each save
 * takes the record behind the newest, or the first of the other slot. It erases the units of
 * MCT_SLOT_ERASE_BYTES that begin within the record, and no other: they hold the oldest saves. What
 * of a record lies before them was erased for the one before. If that part is not blank, or may
 * have been written when the power failed, the record is passed over.
 *
 * A choice of what to train compares two saved states, one before its windows and one between them, and
 * is itself saved with the next state only. Until that is there, both must be, or the run could not go
 * on after a power cut. So page 0 says which save is one of them, by the number that its CRC-32 begins
 * with, its role: 0, as in all records of earlier firmware, 1 or 2. Both come to be in one write, or
 * neither does. If the save behind a state between two windows would erase the one before them, it goes
 * to the first record of the newest state's own slot instead. Should the power fail there, the run goes
 * on from the state before the windows, and comes to the same bits.
 *
 * In firmware that learns lessons (mct_learn_commands.h) a state with the role 2 is one behind a lesson;
 * the one saved before it is what the lesson began with.
 *
 * Where latents are remembered (mct_log.c) a slot is a log instead, of entries one behind the other,
 * from page 0 on. An entry has whole pages, as many as its kind always has:
 *
 *   0  "MCTL"                                     16  number of the save; of the sample
 *   4  CRC-32 of the first page from 8 on         20  samples offered so far; the label
 *   8  0; CRC-32 of the latent                    24  page where the latents since the state before begin; 0
 *  12  kind, 16 bits: 1 a state, 2 a latent       26  id of the ring; 0
 *  14  its role; place in the ring, 16 bits       28  how often a slot was erased; 0
 *  32  what mct_state_save writes; the latent. Little-endian; the rest of the last page is 0xFF
 *
 * The first page is written first. So it tells how far an entry reaches, whether the rest was
 * written or not. Nothing that a state or a latent holds is taken for an entry, or for the log's
 * end. An entry counts if both its checksums are right, a latent if the state behind it counts it,
 * too. Of two states of one number the first was broken off.
 *
 * After a restart the next entry leaves out as many pages as the longest one has: there the power
 * may have failed in a first page. A slot without room is left for the other one, which is erased,
 * last unit first. The ring goes there, and a state behind it; before them the newest states that
 * have a role, of which a state says at 14. Logs of firmware that wrote the first page last have
 * the same form, and are read; what such firmware has put inside a latent that ends in 0xFF stays
 * lost. */
#ifndef MCT_STORE_H
#define MCT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "mct_board_config.h"
#include "mct_model.h"

/* Around reads of a slot that may come upon what a power cut left. */
#ifdef MCT_SLOTS_GUARDED
#define MCT_GUARD(on) mct_board_slots_guard(on)
#else
#define MCT_GUARD(on) ((void)0)
#endif

/* What a saved state is for, besides being the newest. */
typedef enum {
    MCT_ROLE_NONE = 0,
    MCT_ROLE_BEFORE = 1,  /* both windows, behind which it is chosen what to train */
    MCT_ROLE_BETWEEN = 2, /* these windows; the choice needs both states */
} mct_role;

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

/* Saves the state. page: MCT_PAGE_BYTES to work in. false, and the last saved state is still there, or
 * behind one between two windows the one before them, if the flash cannot be written. */
bool mct_store_save(mct_store *store, mct_role role, uint8_t *page);

/* Whether this board has slots that are large enough. */
bool mct_store_exists(void);

#if defined(MCT_FORWARD_TIME) || defined(MCT_BACKING_BYTES) || defined(MCT_LEARN)
/* The newest saved state, in flash; NULL if there is none. */
const uint8_t *mct_store_newest(const mct_store *store);
#endif

#if defined(MCT_FORWARD_TIME) || defined(MCT_LEARN)
/* The role of the newest saved state. */
mct_role mct_store_role(const mct_store *store);
#endif

#ifdef MCT_LEARN
/* Takes over the state that was saved before the newest one, with the ring of then; the next save makes it
 * the newest. false, and nothing changes, if it is gone. */
bool mct_store_load_previous(mct_store *store);
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

#ifdef MCT_LEARN
/* Makes room in the slot for so many latents and the states before and behind them, with a save if there
 * is none. As mct_store_save; false, too, where they do not fit beside the ring. */
bool mct_store_make_room(mct_store *store, uint32_t latents, uint8_t *page);

/* Saves the state without the latents of a label, in the other slot if the ring has some. As mct_store_save. */
bool mct_store_forget_label(mct_store *store, int32_t label, uint8_t *page);
#endif

/* Empties the ring. */
void mct_store_forget(mct_store *store);
#endif

#endif
