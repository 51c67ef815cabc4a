/* SPDX-License-Identifier: Apache-2.0 */
/* Raw samples, of which the front end makes the network's input. mct_protocol.c includes it where a
 * program has one. A driver of the board may call mct_push, too: then a host only takes windows. */
#ifndef MCT_HEAR_COMMANDS_H
#define MCT_HEAR_COMMANDS_H

#define MCT_HEAR_COMMANDS(X)                                                                       \
    X(MCT_COMMAND_HEAR, mct_hear, false)                                                           \
    X(MCT_COMMAND_WINDOW, mct_take_window, false)
#define MCT_HEAR_FLAG 1024u /* what IDENTIFY says of it */
#ifdef MCT_CAMERA
#define MCT_HEAR_SAMPLES 1u /* that are pushed at once */
#else
#define MCT_HEAR_SAMPLES 16u
#endif

_Static_assert(MCT_HEAR_SAMPLES <= MCT_QUEUE, "they must find room");

/* Push samples of a body. Apart, so that they are off the stack when frames are computed. */
__attribute__((noinline)) static void mct_hear_some(const uint8_t *bytes, uint32_t count) {
    int16_t some[MCT_HEAR_SAMPLES * MCT_SAMPLE_NUMBERS];
    for (uint32_t i = 0; i < count * MCT_SAMPLE_NUMBERS; i++) {
        some[i] = (int16_t)mct_get16(bytes + 2 * i);
    }
    mct_push(some, count);
}

/* Push samples of a body, whose bytes may lie anywhere, and compute the frames that they complete.
 * Returns how many frames are new. */
static uint32_t mct_hear_samples(const uint8_t *bytes, uint32_t samples) {
    uint32_t ready = mct_window_ready();
    while (samples > 0) {
        const uint32_t count = samples < MCT_HEAR_SAMPLES ? samples : MCT_HEAR_SAMPLES;
        mct_hear_some(bytes, count);
        ready = mct_window_ready();
        bytes += 2 * count * MCT_SAMPLE_NUMBERS;
        samples -= count;
    }
    return ready;
}

/* Before rows are taken that go to the input at once: a sample that lies there gets lost, and with it the
 * image in whose memory it was written. */
static void mct_take_input(mct_protocol *p) {
#if defined(MCT_CAMERA) && !defined(MCT_TRIGGER_FLOOR)
    if (p->sample_bytes > 0) {
        mct_window_reset();
    }
    mct_forget_sample(p);
#else
    (void)p;
#endif
}

static mct_outcome mct_hear(mct_protocol *p, mct_body body) {
    const uint32_t sample_bytes = 2 * MCT_SAMPLE_NUMBERS;
    if (body.count <= 4 || (body.count - 4) % sample_bytes != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t offset = mct_get32(body.bytes);
    if (offset != 0 && offset != p->heard_bytes) {
        return mct_refuse_at(MCT_ANSWER_OFFSET, body, p->heard_bytes);
    }
    mct_protocol_send_working(p);
    mct_take_input(p);
    if (offset == 0) {
        mct_window_reset();
#ifdef MCT_CAMERA
        mct_frame_begin();
#endif
    }
    const uint64_t before = mct_board_cycles();
    const uint32_t ready = mct_hear_samples(body.bytes + 4, (body.count - 4) / sample_bytes);
    const uint64_t cycles = mct_board_cycles() - before;
    p->heard_bytes = offset + body.count - 4;
    mct_put32(body.bytes, p->heard_bytes);
    mct_put32(body.bytes + 4, ready);
    mct_put32(body.bytes + 8, mct_push_lost());
    mct_put64(body.bytes + 12, cycles);
    return mct_done(20);
}

#ifdef MCT_TRIGGER_FLOOR
#define MCT_WINDOW_HEARD UINT32_MAX /* for frames ago: the one that the trigger found */
#define MCT_WINDOW_LOUDEST (UINT32_MAX - 1u)

/* Whether the body asks for a window that there is; *ago: how many frames ago it ended. */
static bool mct_which_window(mct_body body, uint32_t *ago) {
    *ago = body.count == 0 ? 0 : mct_get32(body.bytes);
    if (*ago == MCT_WINDOW_LOUDEST) {
        *ago = mct_window_loudest();
    } else if (*ago == MCT_WINDOW_HEARD) {
        const int32_t heard = mct_window_heard();
        *ago = (uint32_t)heard;
        return heard >= 0;
    }
    return true;
}
#define MCT_TAKE_WINDOW(ago) mct_window_take_at(ago)
#define MCT_WINDOW_BODY 4u
#else
static bool mct_which_window(mct_body body, uint32_t *ago) {
    (void)body;
    *ago = 0;
    return true;
}
#define MCT_TAKE_WINDOW(ago) mct_window_take()
#define MCT_WINDOW_BODY 0u
#endif

static mct_outcome mct_take_window(mct_protocol *p, mct_body body) {
    if (body.count != 0 && body.count != MCT_WINDOW_BODY) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    uint32_t ago;
    mct_take_input(p);
    const uint32_t ready = mct_window_ready(); /* what a driver has pushed */
    const bool is_there = mct_which_window(body, &ago);
    const uint64_t before = mct_board_cycles();
    if (!is_there || MCT_TAKE_WINDOW(ago) != MCT_OK) {
        return mct_refuse(MCT_ANSWER_SAMPLE_INCOMPLETE);
    }
    mct_forget_sample(p);
#ifdef MCT_LATENT_BYTES
    mct_begin(p, false);
#endif
    p->feed_cycles = mct_board_cycles() - before;
    p->sample_bytes = MCT_INPUT_BYTES;
    mct_put32(body.bytes, ready);
    mct_put32(body.bytes + 4, ago);
    return mct_done(8);
}

#endif
