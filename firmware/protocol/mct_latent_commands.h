/* SPDX-License-Identifier: Apache-2.0 */
/* Latents in the place of samples. mct_protocol.c includes it where a program has it. */
#ifndef MCT_LATENT_COMMANDS_H
#define MCT_LATENT_COMMANDS_H

#define MCT_LATENT_COMMANDS(X) X(MCT_COMMAND_LATENT, mct_latent_piece, false)
#define MCT_LATENT_FLAG 16u /* what IDENTIFY says of it */

static mct_outcome mct_latent_piece(mct_protocol *p, mct_body body) {
    if (body.count < 5) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t offset = mct_get32(body.bytes);
    const uint32_t count = body.count - 4;
    mct_begin(p, true);
    if ((offset != 0 && offset != p->sample_bytes) || count > MCT_LATENT_BYTES - offset) {
        return mct_refuse_at(MCT_ANSWER_OFFSET, body, p->sample_bytes);
    }
    p->output = NULL; /* it may lie where the scores were */
    p->feed_cycles = 0;
#ifdef MCT_LABEL_BYTES
    p->label_bytes = offset == 0 ? 0 : p->label_bytes;
#endif
    memcpy(mct_latent() + offset, body.bytes + 4, count);
    p->sample_bytes = offset + count;
    mct_put32(body.bytes, p->sample_bytes);
    return mct_done(4);
}

#endif
