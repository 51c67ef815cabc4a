/* SPDX-License-Identifier: Apache-2.0 */
/* Training on latents that the flash remembers. mct_protocol.c includes it where a program has it. */
#ifndef MCT_REPLAY_COMMANDS_H
#define MCT_REPLAY_COMMANDS_H

#define MCT_REPLAY_COMMANDS(X) X(MCT_COMMAND_REPLAY, mct_replay_now, false)
#define MCT_REPLAY_FLAG 0u /* what IDENTIFY says of it */

static mct_outcome mct_replay_now(mct_protocol *p, mct_body body) {
    if (body.count != 4 && body.count != 12) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    mct_learning_rate rate = p->rate;
    mct_answer ready = p->rate_set ? MCT_ANSWER_OK : MCT_ANSWER_RATE;
    if (body.count == 12) {
        ready = mct_read_rate(body.bytes + 4, &rate);
    }
    if (ready == MCT_ANSWER_OK && p->incomplete) {
        ready = MCT_ANSWER_STATE_INCOMPLETE;
    }
    if (ready != MCT_ANSWER_OK) {
        return mct_refuse(ready);
    }
    if (mct_get32(body.bytes) != mct_position()) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_position());
    }
    int32_t label;
    const int8_t *latent = mct_store_recall(&p->store, mct_position(), &label);
    if (latent == NULL) {
        return mct_refuse(MCT_ANSWER_FORGOTTEN);
    }
    mct_protocol_send_working(p);
    mct_result result;
    const uint64_t before = mct_board_cycles();
    (void)mct_train_latent(latent, label, rate, &result);
    p->train_cycles = mct_board_cycles() - before;
    const mct_outcome outcome = mct_trained(p, &result, body);
    mct_put32(body.bytes + outcome.count, (uint32_t)label);
    return mct_done(outcome.count + 4);
}

#endif
