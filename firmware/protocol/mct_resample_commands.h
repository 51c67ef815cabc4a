/* SPDX-License-Identifier: Apache-2.0 */
/* Other columns are trained. mct_protocol.c includes it where a program has it. */
#ifndef MCT_RESAMPLE_COMMANDS_H
#define MCT_RESAMPLE_COMMANDS_H

#include "mct_kept_commands.h"

#define MCT_RESAMPLE_COMMANDS(X) X(MCT_COMMAND_RESAMPLE, mct_resample_now, false)
#define MCT_RESAMPLE_FLAG 128u /* what IDENTIFY says of it */

/* Other columns are trained from here on, once at a position. The page is the body's space. */
static mct_outcome mct_resample_now(mct_protocol *p, mct_body body) {
    if (body.count != 4) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t every = mct_get32(body.bytes);
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    if (every == 0 || every % MCT_SAMPLES_PER_UPDATE != 0) {
        return mct_refuse(MCT_ANSWER_SHARE);
    }
    if (mct_position() % every != 0) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_position());
    }
    if (!mct_swap_is_due()) {
        return mct_saved_number(p, body);
    }
    mct_protocol_send_working(p);
    mct_forget_sample(p);
    mct_swap_begin();
    if (!mct_is_kept(p) && !mct_store_save(&p->store, MCT_ROLE_NONE, body.bytes)) {
        return mct_refuse(MCT_ANSWER_FLASH);
    }
    return mct_swap(mct_store_newest(&p->store)) == MCT_OK ? mct_saved_number(p, body)
                                                           : mct_refuse(MCT_ANSWER_FLASH);
}

#endif
