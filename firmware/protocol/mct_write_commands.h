/* SPDX-License-Identifier: Apache-2.0 */
/* A state that comes over the line, of models whose state does not end in flash. mct_protocol.c includes it where a program has it. */
#ifndef MCT_WRITE_COMMANDS_H
#define MCT_WRITE_COMMANDS_H

#define MCT_WRITE_COMMANDS(X) X(MCT_COMMAND_WRITE_STATE, mct_write_state, false)
#define MCT_WRITE_FLAG 0u /* what IDENTIFY says of it */

static mct_answer mct_answer_of(mct_status status) {
    switch (status) {
    case MCT_OK:
        return MCT_ANSWER_OK;
    case MCT_ERROR_MODEL:
        return MCT_ANSWER_MODEL;
    default:
        return MCT_ANSWER_CHECKSUM;
    }
}

/* The first piece: nothing changes unless its header is of this model and scheme. */
static mct_answer mct_write_begin(mct_protocol *p, const uint8_t *bytes, uint32_t count) {
    if (count < MCT_STATE_HEADER_BYTES) {
        return MCT_ANSWER_LENGTH;
    }
    const mct_status status = mct_state_check_header(MCT_MODEL_HASH, MCT_STATE_BYTES, bytes);
    if (status == MCT_OK) {
        memcpy(p->written_header, bytes, MCT_STATE_HEADER_BYTES);
        p->incomplete = 1;
        p->written_bytes = 0;
        mct_forget_sample(p);
        mct_forget_ring(p);
    }
    return mct_answer_of(status);
}

static mct_outcome mct_write_state(mct_protocol *p, mct_body body) {
    if (body.count < 5) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t offset = mct_get32(body.bytes);
    const uint32_t count = body.count - 4;
    const uint8_t *bytes = body.bytes + 4;
    if ((offset != 0 && offset != p->written_bytes) || count > MCT_SAVED_BYTES - offset) {
        return mct_refuse_at(MCT_ANSWER_OFFSET, body, p->written_bytes);
    }
    uint32_t header = 0; /* bytes of this piece that belong to it */
    if (offset == 0) {
        const mct_answer begun = mct_write_begin(p, bytes, count);
        if (begun != MCT_ANSWER_OK) {
            return mct_refuse(begun);
        }
        header = MCT_STATE_HEADER_BYTES;
    }
    memcpy(mct_state_bytes() + offset + header - MCT_STATE_HEADER_BYTES, bytes + header,
           count - header);
    p->written_bytes = offset + count;
    if (p->written_bytes == MCT_SAVED_BYTES) {
        mct_protocol_send_working(p);
        p->written_bytes = 0;
        if (mct_state_check(p->written_header, mct_state_bytes(), MCT_STATE_BYTES) != MCT_OK ||
            mct_state_check_biases(mct_state_bytes(), MCT_BIASES) != MCT_OK) {
            return mct_refuse(MCT_ANSWER_CHECKSUM);
        }
        mct_state_replaced(p);
        mct_put32(body.bytes, MCT_SAVED_BYTES);
        return mct_done(4);
    }
    mct_put32(body.bytes, p->written_bytes);
    return mct_done(4);
}

#endif
