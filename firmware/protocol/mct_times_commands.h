/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes took. mct_protocol.c includes it where a program has it. */
#ifndef MCT_TIMES_COMMANDS_H
#define MCT_TIMES_COMMANDS_H

#define MCT_TIMES_COMMANDS(X) X(MCT_COMMAND_TIMES, mct_read_times, true)
#define MCT_TIMES_FLAG 64u /* what IDENTIFY says of it */

/* An empty body forgets the times so far. */
static mct_outcome mct_read_times(mct_protocol *p, mct_body body) {
    (void)p;
    if (body.count == 0) {
        mct_forget_times();
        return mct_done(0);
    }
    uint32_t offset, count;
    const uint32_t size = 4u * MCT_TIMED_NODES;
    const mct_answer valid = mct_read_range(body, size, &offset, &count);
    if (valid == MCT_ANSWER_OFFSET) {
        return mct_refuse_at(valid, body, size);
    }
    if (valid != MCT_ANSWER_OK) {
        return mct_refuse(valid);
    }
    memcpy(body.bytes, (const uint8_t *)mct_fewest_ticks() + offset, count);
    return mct_done(count);
}

#endif
