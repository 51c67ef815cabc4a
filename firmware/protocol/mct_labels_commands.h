/* SPDX-License-Identifier: Apache-2.0 */
/* A label for each position of a sample. mct_protocol.c includes it where a program has it. */
#ifndef MCT_LABELS_COMMANDS_H
#define MCT_LABELS_COMMANDS_H

#define MCT_LABELS_COMMANDS(X) X(MCT_COMMAND_LABELS, mct_labels_piece, false)
#define MCT_LABELS_FLAG 256u /* what IDENTIFY says of it */

/* Labels come behind the sample: what is there of them belongs to none that begins later. */
static mct_outcome mct_labels_piece(mct_protocol *p, mct_body body) {
    if (body.count < 5) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t offset = mct_get32(body.bytes);
    const uint32_t count = body.count - 4;
    if ((offset != 0 && offset != p->label_bytes) || count > MCT_LABEL_BYTES - offset) {
        return mct_refuse_at(MCT_ANSWER_OFFSET, body, p->label_bytes);
    }
    p->output = NULL; /* they may lie where the scores were */
    memcpy(mct_labels() + offset, body.bytes + 4, count);
    p->label_bytes = offset + count;
    mct_put32(body.bytes, p->label_bytes);
    return mct_done(4);
}

#endif
