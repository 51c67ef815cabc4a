/* SPDX-License-Identifier: Apache-2.0 */
/* A class gets its weights from a few samples. mct_protocol.c includes it where a program has it. */
#ifndef MCT_IMPRINT_COMMANDS_H
#define MCT_IMPRINT_COMMANDS_H

#define MCT_IMPRINT_COMMANDS(X)                                                                    \
    X(MCT_COMMAND_COLLECT, mct_collect, false)                                                     \
    X(MCT_COMMAND_IMPRINT, mct_imprint_now, false)
#define MCT_IMPRINT_FLAG 512u /* what IDENTIFY says of it */

static mct_outcome mct_collect(mct_protocol *p, mct_body body) {
    if (body.count != 4) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t index = mct_get32(body.bytes);
    const mct_answer ready = mct_ready(p);
    if (ready != MCT_ANSWER_OK) {
        return mct_refuse(ready);
    }
    if (index != 0 && index != mct_imprint_samples()) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_imprint_samples());
    }
    mct_protocol_send_working(p);
    if (index == 0) {
        mct_imprint_begin();
    }
    const uint64_t before = mct_board_cycles();
#ifdef MCT_LATENT_BYTES
    const mct_status status =
        p->is_latent ? mct_imprint_latent(mct_latent()) : mct_imprint_sample();
#else
    const mct_status status = mct_imprint_sample();
#endif
    p->infer_cycles = p->feed_cycles + mct_board_cycles() - before;
    mct_forget_sample(p);
    if (status != MCT_OK) { /* there are as many as there may be */
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_imprint_samples());
    }
    mct_put32(body.bytes, mct_imprint_samples());
    mct_put64(body.bytes + 4, p->infer_cycles);
    return mct_done(12);
}

static mct_outcome mct_imprint_now(mct_protocol *p, mct_body body) {
    if (body.count != 8) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    if (p->incomplete) {
        return mct_refuse(MCT_ANSWER_STATE_INCOMPLETE);
    }
    const int32_t label = (int32_t)mct_get32(body.bytes);
    const int32_t known = (int32_t)mct_get32(body.bytes + 4);
    mct_protocol_send_working(p);
    const uint64_t before = mct_board_cycles();
    const mct_status status = mct_imprint(label, known);
    if (status != MCT_OK) {
        return mct_refuse(status == MCT_ERROR_LABEL ? MCT_ANSWER_LABEL
                                                    : MCT_ANSWER_SAMPLE_INCOMPLETE);
    }
    mct_put64(body.bytes, mct_board_cycles() - before);
    return mct_done(8);
}

#endif
