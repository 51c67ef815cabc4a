/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors are chosen. mct_protocol.c includes it where a program has it. */
#ifndef MCT_SELECT_COMMANDS_H
#define MCT_SELECT_COMMANDS_H

#include "mct_kept_commands.h"

#define MCT_SELECT_COMMANDS(X) X(MCT_COMMAND_SELECT, mct_select_at, false)
#define MCT_SELECT_FLAG 32u /* what IDENTIFY says of it */

/* What SELECT asks for. squares: they decide, by one saved state. */
typedef struct {
    uint32_t share_q16, every;
    bool squares;
} mct_selecting;

/* Selects from the states that were saved at the windows' begins. */
static mct_answer mct_select_now(const mct_protocol *p, const mct_selecting *s) {
    const uint32_t look = mct_selection_look(s->every, MCT_SAMPLES_PER_UPDATE);
    const uint32_t position = mct_position();
    const uint8_t *before = mct_store_find(&p->store, position - 2u * look);
    const uint8_t *between = s->squares ? NULL : mct_store_find(&p->store, position - look);
    if (before == NULL || (between == NULL && !s->squares)) {
        return MCT_ANSWER_NOT_KEPT;
    }
    const mct_status status = mct_reselect(s->share_q16, s->every, before, between);
    return status == MCT_OK ? MCT_ANSWER_OK : MCT_ANSWER_SHARE;
}

/* Does what is due at the position. The page is the body's space, which is read before. */
static mct_outcome mct_select_at(mct_protocol *p, mct_body body) {
    if (body.count != 8 && body.count != 9) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const mct_selecting s = {mct_get32(body.bytes), mct_get32(body.bytes + 4),
                             body.count == 9 && body.bytes[8] != 0};
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    if (p->incomplete) {
        return mct_refuse(MCT_ANSWER_STATE_INCOMPLETE);
    }
    if (s.share_q16 > MCT_SELECTION_WHOLE_Q16 ||
        !mct_selection_is_sound(s.every, MCT_SAMPLES_PER_UPDATE)) {
        return mct_refuse(MCT_ANSWER_SHARE);
    }
    const mct_selection_due due = mct_selection_at(mct_position(), s.every, MCT_SAMPLES_PER_UPDATE);
    if (due == MCT_SELECTION_STAYS || (due == MCT_SELECTION_LOOKS_ON && s.squares)) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_position());
    }
    mct_protocol_send_working(p);
    mct_forget_sample(p);
    if (due == MCT_SELECTION_ENDS) {
        const mct_answer selected = mct_select_now(p, &s);
        return selected == MCT_ANSWER_OK ? mct_saved_number(p, body) : mct_refuse(selected);
    }
    if (due == MCT_SELECTION_BEGINS) {
        mct_select_all();
    }
    const mct_role role = due == MCT_SELECTION_BEGINS ? MCT_ROLE_BEFORE : MCT_ROLE_BETWEEN;
    const bool is_kept = mct_is_kept(p) && mct_store_role(&p->store) == role;
    if (!is_kept && !mct_store_save(&p->store, role, body.bytes)) {
        return mct_refuse(MCT_ANSWER_FLASH);
    }
    return mct_saved_number(p, body);
}

#endif
