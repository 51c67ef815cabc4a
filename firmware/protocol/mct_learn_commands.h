/* SPDX-License-Identifier: Apache-2.0 */
/* A board that listens, infers, and learns when it is told. mct_protocol.c includes it where a program
 * has it. What it decides is in mct_learn.h; a lesson is steps on a window that was heard, each followed
 * by replays of what is remembered, between two saved states. */
#ifndef MCT_LEARN_COMMANDS_H
#define MCT_LEARN_COMMANDS_H

#include "mct_kept_commands.h"
#ifdef MCT_IMPRINT_FEATURES
#include "mct_imprint.h"
#endif

#ifdef MCT_KEPT_SAMPLES
#define MCT_KEPT_COMMANDS(X) X(MCT_COMMAND_READ_SAMPLES, mct_read_samples, true)
#else
#define MCT_KEPT_COMMANDS(X)
#endif
#define MCT_LEARN_COMMANDS(X)                                                                      \
    MCT_KEPT_COMMANDS(X)                                                                           \
    X(MCT_COMMAND_TEACH, mct_teach, false)                                                         \
    X(MCT_COMMAND_LEARNT, mct_tell_learnt, true)                                                   \
    X(MCT_COMMAND_READ_WINDOW, mct_read_window, true)
#define MCT_LEARN_FLAG 2048u /* what IDENTIFY says of it */

/* You may define these for the compiler. HOP: frames from one inference to the next. The others are the
 * fields of mct_learn_params. */
#ifndef MCT_LEARN_HOP
#define MCT_LEARN_HOP ((MCT_FRAMES + 3u) / 4u)
#endif
#ifndef MCT_LEARN_MARGIN
#define MCT_LEARN_MARGIN 16
#endif
#ifndef MCT_LEARN_LEAST
#define MCT_LEARN_LEAST (-128)
#endif
#ifndef MCT_LEARN_AGREE
#define MCT_LEARN_AGREE 2u
#endif
#ifndef MCT_LEARN_PAUSE
#define MCT_LEARN_PAUSE 4u
#endif
#ifndef MCT_LEARN_QUIET
#define MCT_LEARN_QUIET (-1)
#endif

#define MCT_TEACH_LESSON 0u
#define MCT_TEACH_CLASS 1u
#define MCT_TEACH_UNDO 2u
#define MCT_TEACH_FORGET 3u
#define MCT_TEACH_FORGET_CLASS 4u
#define MCT_TEACH_BODY 25u

/* How often a sample is learnt, and what follows each step. */
static mct_answer mct_lesson_read(const uint8_t *bytes, mct_lesson *lesson) {
    lesson->steps = mct_get16(bytes);
    lesson->replay = mct_get16(bytes + 2);
    return mct_read_rate(bytes + 4, &lesson->rate);
}

/* The state before a lesson is the newest saved one, and all of the lesson finds room behind it. */
static bool mct_lesson_open(mct_protocol *p, uint32_t samples, uint8_t *page) {
#ifdef MCT_REMEMBER
    if (!mct_store_make_room(&p->store, samples, page)) {
        return false;
    }
#else
    (void)samples;
#endif
    return mct_is_kept(p) || mct_store_save(&p->store, MCT_ROLE_NONE, page);
}

/* Offers what the front made of the sample to the ring. */
static bool mct_lesson_remember(mct_protocol *p, const int8_t *latent, int32_t label,
                                uint8_t *page) {
#ifdef MCT_REMEMBER
    return mct_store_offer(&p->store, latent, label, page);
#else
    (void)p;
    (void)latent;
    (void)label;
    (void)page;
    return true;
#endif
}

/* One step on the window, of which nothing was computed yet. */
static bool mct_lesson_step(mct_protocol *p, int32_t label, bool is_new, uint8_t *page) {
    mct_result result;
#ifdef MCT_LATENT_BYTES
    const int8_t *latent = mct_front();
    if (is_new && !mct_lesson_remember(p, latent, label, page)) {
        return false;
    }
    (void)mct_train_latent(latent, label, p->lesson.rate, &result);
#else
    (void)is_new;
    (void)mct_lesson_remember;
    (void)page;
    (void)mct_train(label, p->lesson.rate, &result);
#endif
#ifdef MCT_REMEMBER
    for (uint32_t i = 0; i < p->lesson.replay; i++) {
        int32_t other;
        const int8_t *earlier = mct_store_recall(&p->store, mct_position(), &other);
        if (earlier != NULL) {
            (void)mct_train_latent(earlier, other, p->lesson.rate, &result);
        }
    }
#endif
    p->loss_q16 = result.loss_q16;
    p->prediction = result.prediction;
    return true;
}

/* The steps of a lesson on the window that ended so many frames ago, and the state behind them. */
static bool mct_lesson_steps(mct_protocol *p, uint32_t ago, int32_t label, bool is_new,
                             uint8_t *page) {
    for (uint32_t i = 0; i < p->lesson.steps; i++) {
        if (mct_window_take_at(ago) != MCT_OK ||
            !mct_lesson_step(p, label, is_new && i == 0, page)) {
            return false;
        }
    }
    p->lesson.number++;
    p->lesson.label = label;
    p->lesson.frame = mct_window_total() - ago;
    return mct_store_save(&p->store, MCT_ROLE_BETWEEN, page);
}

#ifdef MCT_IMPRINT_FEATURES
/* Takes a window as a sample of the class that is awaited. */
static bool mct_lesson_collect(mct_protocol *p, uint32_t ago, uint8_t *page) {
    if (mct_window_take_at(ago) != MCT_OK) {
        return false;
    }
#ifdef MCT_LATENT_BYTES
    const int8_t *latent = mct_front();
    if (!mct_lesson_remember(p, latent, p->learn.label, page)) {
        return false;
    }
    (void)mct_imprint_latent(latent);
#else
    (void)mct_imprint_sample();
    (void)page;
#endif
    p->lesson.collected++;
    p->lesson.label = p->learn.label;
    p->lesson.frame = mct_window_total() - ago;
    return true;
}

/* What a window is for that stands out. Fails where the flash does: then nothing is awaited. */
static void mct_lesson_found(mct_protocol *p, uint32_t ago, uint8_t *page) {
    const mct_learn_action action = mct_learn_sample(&p->learn);
    if (action == MCT_LEARN_NOTHING) {
        return;
    }
    bool is_done = mct_lesson_collect(p, ago, page);
    if (is_done && action == MCT_LEARN_IMPRINT) {
        is_done = mct_imprint(p->learn.label, p->learn.known) == MCT_OK &&
                  mct_lesson_steps(p, ago, p->learn.label, false, page);
    }
    if (!is_done) {
        p->learn.left = 0;
        p->lesson.failed++;
    }
}
#endif

/* Infers on the last window. */
static void mct_learn_infer(mct_protocol *p) {
    static const mct_learn_params params = {.margin = MCT_LEARN_MARGIN,
                                            .least = MCT_LEARN_LEAST,
                                            .agree = MCT_LEARN_AGREE,
                                            .pause = MCT_LEARN_PAUSE,
                                            .quiet = MCT_LEARN_QUIET};
    if (mct_window_take() != MCT_OK) {
        return;
    }
    const int32_t told = mct_learn_hear(&p->learn, &params, mct_infer(), MCT_CLASSES);
    p->lesson.inferences++;
    if (told >= 0) {
        p->lesson.detections++;
        p->lesson.told = told;
        p->lesson.told_frame = mct_window_total();
    }
}

/* Looks at frames that are new: no more than one since the last look, if a driver is read so often. */
static void mct_learn_look(mct_protocol *p) {
    const bool is_ready = mct_window_ready() > 0;
    const uint32_t total = mct_window_total(), fresh = total - p->lesson.looked;
    if (fresh == 0 || p->incomplete) {
        return;
    }
    p->lesson.looked = total;
    p->lesson.since += fresh;
    mct_forget_sample(p);
#ifdef MCT_IMPRINT_FEATURES
    const int32_t ago = mct_window_heard();
    if (ago >= 0) {
        mct_lesson_found(p, (uint32_t)ago, p->frame.bytes + MCT_HEADER_BYTES);
    }
#endif
    if (is_ready && p->lesson.since >= MCT_LEARN_HOP) {
        p->lesson.since = 0;
        mct_learn_infer(p);
    }
}

#ifdef MCT_SENSOR
/* The source of samples of a virtual board: how many wait, and the next number. */
#define MCT_SENSOR_COUNT (*(volatile const uint32_t *)(MCT_SENSOR + 0u))
#define MCT_SENSOR_DATA (*(volatile const uint32_t *)(MCT_SENSOR + 4u))
#define MCT_SENSOR_BEGIN (*(volatile const uint32_t *)(MCT_SENSOR + 8u)) /* of a camera's frame */

#define MCT_SENSE_SAMPLES (MCT_HOP < MCT_HEAR_SAMPLES ? MCT_HOP : MCT_HEAR_SAMPLES)

/* Push samples that wait. Apart, so that they are off the stack when a look needs it. */
__attribute__((noinline)) static void mct_sense_some(uint32_t count) {
    int16_t some[MCT_SENSE_SAMPLES * MCT_SAMPLE_NUMBERS];
#ifdef MCT_CAMERA
    if (MCT_SENSOR_BEGIN) {
        mct_frame_begin();
    }
#endif
    for (uint32_t i = 0; i < count * MCT_SAMPLE_NUMBERS; i++) {
        some[i] = (int16_t)MCT_SENSOR_DATA;
    }
    mct_push(some, count);
}

/* A look behind each frame: what is found follows from the samples alone, not from when they came. */
static void mct_learn_sense(mct_protocol *p) {
    uint32_t count = MCT_SENSOR_COUNT;
    mct_learn_look(p); /* at what a host has played */
    while (count > 0) {
        const uint32_t now = count < MCT_SENSE_SAMPLES ? count : MCT_SENSE_SAMPLES;
        mct_sense_some(now);
        mct_learn_look(p);
        count -= now;
    }
}
#else
static void mct_learn_sense(mct_protocol *p) {
    mct_learn_look(p);
}
#endif

/* ---- what it is told, by a request or a button ---- */

/* Learns a window. lesson: becomes the board's when nothing can be refused any more, for another may be
 * awaited. */
static mct_answer mct_lesson_learn(mct_protocol *p, const mct_lesson *lesson, int32_t label,
                                   uint32_t ago, uint8_t *page) {
    if (mct_window_take_at(ago) != MCT_OK) {
        return MCT_ANSWER_SAMPLE_INCOMPLETE;
    }
    p->lesson = *lesson;
    p->learn.left = 0;
    const bool is_done = mct_lesson_open(p, 1, page) && mct_lesson_steps(p, ago, label, true, page);
    return is_done ? MCT_ANSWER_OK : MCT_ANSWER_FLASH;
}

#ifdef MCT_IMPRINT_FEATURES
/* Awaits samples of a class. */
static mct_answer mct_lesson_gather(mct_protocol *p, const mct_lesson *lesson, int32_t label,
                                    int32_t known, uint32_t samples, uint8_t *page) {
    if (samples > MCT_IMPRINT_MOST ||
        !mct_learn_gather(&p->learn, label, known, samples, MCT_CLASSES)) {
        return MCT_ANSWER_LABEL;
    }
    p->lesson = *lesson;
    mct_imprint_begin();
    (void)mct_window_heard(); /* what stood out before is no sample */
    if (!mct_lesson_open(p, samples, page)) {
        p->learn.left = 0;
        return MCT_ANSWER_FLASH;
    }
    p->lesson.frame = mct_window_total();
    return MCT_ANSWER_OK;
}
#endif

/* The state before the last lesson is that of now, and saved. */
static mct_answer mct_lesson_undo(mct_protocol *p, uint8_t *page) {
    if (mct_store_role(&p->store) != MCT_ROLE_BETWEEN || !mct_is_kept(p) ||
        !mct_store_load_previous(&p->store)) {
        return MCT_ANSWER_NOT_KEPT;
    }
    mct_state_replaced(p);
    return mct_store_save(&p->store, MCT_ROLE_NONE, page) ? MCT_ANSWER_OK : MCT_ANSWER_FLASH;
}

#ifdef MCT_BUTTON
/* You may define these for the compiler. CLASS: what a click teaches; where classes are imprinted, the next
 * SAMPLES windows that stand out, else the loudest one. STEPS, REPLAY, RATE: how. SETTLE_MS: what is shorter
 * is a bounce; HOLD_MS: what is longer is no click. */
#ifndef MCT_BUTTON_CLASS
#define MCT_BUTTON_CLASS (MCT_CLASSES - 1)
#endif
#ifndef MCT_BUTTON_SAMPLES
#define MCT_BUTTON_SAMPLES 5u
#endif
#ifndef MCT_BUTTON_STEPS
#define MCT_BUTTON_STEPS 4u
#endif
#ifndef MCT_BUTTON_REPLAY
#define MCT_BUTTON_REPLAY 0u
#endif
#ifndef MCT_BUTTON_RATE /* 0.01 */
#define MCT_BUTTON_RATE {.mult_q31 = 1374389535, .shift = -6}
#endif
#ifndef MCT_BUTTON_SETTLE_MS
#define MCT_BUTTON_SETTLE_MS 20u
#endif
#ifndef MCT_BUTTON_HOLD_MS
#define MCT_BUTTON_HOLD_MS 1000u
#endif

_Static_assert(MCT_BUTTON_STEPS > 0, "a lesson has steps");
_Static_assert(MCT_BUTTON_CLASS >= 0 && MCT_BUTTON_CLASS < MCT_CLASSES, "a button teaches a class");
_Static_assert(MCT_BUTTON_HOLD_MS <= UINT32_MAX / (MCT_CLOCK_HZ / 1000u) &&
                   MCT_BUTTON_SETTLE_MS <= UINT32_MAX / (MCT_CLOCK_HZ / 1000u),
               "cycles of a press have 32 bits");

/* Begins a lesson; where one is awaited, ends it, and the state is the saved one again. */
static mct_answer mct_button_clicked(mct_protocol *p, uint8_t *page) {
    mct_lesson lesson = p->lesson;
    lesson.steps = MCT_BUTTON_STEPS;
    lesson.replay = MCT_BUTTON_REPLAY;
    lesson.rate = (mct_learning_rate)MCT_BUTTON_RATE;
#ifdef MCT_IMPRINT_FEATURES
    if (p->learn.left > 0) {
        return mct_take_saved(p) ? MCT_ANSWER_OK : MCT_ANSWER_NO_SAVED;
    }
    return mct_lesson_gather(p, &lesson, MCT_BUTTON_CLASS, MCT_CLASSES, MCT_BUTTON_SAMPLES, page);
#else
    return mct_lesson_learn(p, &lesson, MCT_BUTTON_CLASS, mct_window_loudest(), page);
#endif
}

/* A click begins or ends a lesson; a button that is held takes the last one back. */
static void mct_learn_feel(mct_protocol *p) {
    static const mct_button_params params = {MCT_CLOCK_HZ / 1000u * MCT_BUTTON_SETTLE_MS,
                                             MCT_CLOCK_HZ / 1000u * MCT_BUTTON_HOLD_MS};
    const uint32_t now = (uint32_t)mct_board_cycles();
    const mct_button_event event = mct_button_look(&p->button, &params, mct_board_button(), now);
    if (event == MCT_BUTTON_NOTHING || p->incomplete || !mct_store_exists()) {
        return;
    }
    uint8_t *page = p->frame.bytes + MCT_HEADER_BYTES;
    mct_forget_sample(p);
#ifdef MCT_LATENT_BYTES
    mct_begin(p, false);
#endif
    const mct_answer done =
        event == MCT_BUTTON_HELD ? mct_lesson_undo(p, page) : mct_button_clicked(p, page);
    p->lesson.failed += done == MCT_ANSWER_FLASH;
}
#else
static void mct_learn_feel(mct_protocol *p) {
    (void)p;
}
#endif

/* A request is not to be lost, nor the room that it comes to. But where its next byte does not come it was
 * none: a cable that is unplugged gives a byte, too. A wait takes ten cycles or more, or as long as the
 * board says that has its own number. */
#ifndef MCT_LEARN_WAITS
#define MCT_LEARN_WAITS (1u << 18)
#endif

void mct_protocol_wait(mct_protocol *p) {
    if (p->frame.begun && p->lesson.waited < MCT_LEARN_WAITS) {
        p->lesson.waited++;
        return;
    }
    mct_frame_clear(&p->frame);
    mct_learn_sense(p);
    mct_learn_feel(p);
}

/* ---- requests ---- */

static mct_outcome mct_taught(const mct_protocol *p, mct_body body) {
    mct_put32(body.bytes, mct_position());
    mct_put32(body.bytes + 4, p->lesson.frame);
    mct_put32(body.bytes + 8, p->store.number);
    return mct_done(12);
}

static mct_outcome mct_teach_lesson(mct_protocol *p, const mct_lesson *lesson, mct_body body) {
    const int32_t label = (int32_t)mct_get32(body.bytes + 1);
    uint32_t ago;
    const mct_body where = {body.bytes + 5, 4};
    if (label < 0 || label >= MCT_CLASSES) {
        return mct_refuse(MCT_ANSWER_LABEL);
    }
    (void)mct_window_ready();
    if (lesson->steps == 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    if (!mct_which_window(where, &ago)) {
        return mct_refuse(MCT_ANSWER_SAMPLE_INCOMPLETE);
    }
    const mct_answer done = mct_lesson_learn(p, lesson, label, ago, body.bytes);
    return done == MCT_ANSWER_OK ? mct_taught(p, body) : mct_refuse(done);
}

static mct_outcome mct_teach_class(mct_protocol *p, const mct_lesson *lesson, mct_body body) {
#ifdef MCT_IMPRINT_FEATURES
    const int32_t label = (int32_t)mct_get32(body.bytes + 1);
    const int32_t known = (int32_t)mct_get32(body.bytes + 5);
    const uint32_t samples = mct_get32(body.bytes + 9);
    const mct_answer done = mct_lesson_gather(p, lesson, label, known, samples, body.bytes);
    return done == MCT_ANSWER_OK ? mct_taught(p, body) : mct_refuse(done);
#else
    (void)p;
    (void)lesson;
    (void)body;
    return mct_refuse(MCT_ANSWER_UNSUPPORTED);
#endif
}

static mct_outcome mct_teach_forget_class(mct_protocol *p, mct_body body) {
#ifdef MCT_IMPRINT_FEATURES
    const int32_t label = (int32_t)mct_get32(body.bytes + 1);
    if (mct_forget_class(label) != MCT_OK) {
        return mct_refuse(MCT_ANSWER_LABEL);
    }
    mct_state_replaced(p);
#ifdef MCT_REMEMBER
    const bool is_saved = mct_store_forget_label(&p->store, label, body.bytes);
#else
    const bool is_saved = mct_store_save(&p->store, MCT_ROLE_NONE, body.bytes);
#endif
    return is_saved ? mct_taught(p, body) : mct_refuse(MCT_ANSWER_FLASH);
#else
    (void)p;
    (void)body;
    return mct_refuse(MCT_ANSWER_UNSUPPORTED);
#endif
}

static mct_outcome mct_teach(mct_protocol *p, mct_body body) {
    if (body.count != MCT_TEACH_BODY) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint8_t kind = body.bytes[0];
    mct_lesson lesson = p->lesson;
    const mct_answer valid =
        kind <= MCT_TEACH_CLASS ? mct_lesson_read(body.bytes + 13, &lesson) : MCT_ANSWER_OK;
    if (valid != MCT_ANSWER_OK) {
        return mct_refuse(valid);
    }
    if (p->incomplete) {
        return mct_refuse(MCT_ANSWER_STATE_INCOMPLETE);
    }
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    mct_protocol_send_working(p);
    mct_forget_sample(p);
#ifdef MCT_LATENT_BYTES
    mct_begin(p, false);
#endif
    if (kind == MCT_TEACH_LESSON) {
        return mct_teach_lesson(p, &lesson, body);
    }
    if (kind == MCT_TEACH_CLASS) {
        return mct_teach_class(p, &lesson, body);
    }
    if (kind == MCT_TEACH_FORGET_CLASS) {
        return mct_teach_forget_class(p, body);
    }
    if (kind != MCT_TEACH_UNDO && kind != MCT_TEACH_FORGET) {
        return mct_refuse(MCT_ANSWER_COMMAND);
    }
    if (kind == MCT_TEACH_UNDO) {
        const mct_answer done = mct_lesson_undo(p, body.bytes);
        return done == MCT_ANSWER_OK ? mct_taught(p, body) : mct_refuse(done);
    }
    mct_reset(MCT_INITIAL_SEED);
    p->heard_bytes = 0;
    mct_forget_ring(p);
    mct_state_replaced(p);
    if (!mct_store_save(&p->store, MCT_ROLE_NONE, body.bytes)) {
        return mct_refuse(MCT_ANSWER_FLASH);
    }
    return mct_taught(p, body);
}

static mct_outcome mct_tell_learnt(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const mct_lesson *lesson = &p->lesson;
    const uint32_t numbers[] = {
        mct_window_total(),
        lesson->inferences,
        lesson->detections,
        (uint32_t)lesson->told,
        lesson->told_frame,
        lesson->number,
        lesson->collected,
        (uint32_t)lesson->label,
        lesson->frame,
        p->learn.left,
        lesson->failed,
        mct_push_lost(),
        mct_position(),
        (uint32_t)p->learn.known,
        lesson->steps,
        lesson->replay,
        (uint32_t)lesson->rate.mult_q31,
        (uint32_t)lesson->rate.shift,
    };
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        mct_put32(body.bytes + 4 * i, numbers[i]);
    }
    return mct_done(sizeof numbers);
}

static mct_outcome mct_read_window(mct_protocol *p, mct_body body) {
    (void)p;
    uint32_t offset, count;
    if (body.count != 10) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t ago = mct_window_total() - mct_get32(body.bytes);
    const mct_body range = {body.bytes + 4, 6};
    const mct_answer valid = mct_read_range(range, MCT_INPUT_BYTES, &offset, &count);
    if (valid != MCT_ANSWER_OK) {
        return mct_refuse(valid);
    }
    if (mct_window_codes(ago, offset, count, (int8_t *)body.bytes) != MCT_OK) {
        return mct_refuse(MCT_ANSWER_NOT_KEPT);
    }
    return mct_done(count);
}

#ifdef MCT_KEPT_SAMPLES
#define MCT_STREAM_ANEW UINT32_MAX /* for a sample's number: a new stream begins */

static mct_outcome mct_read_samples(mct_protocol *p, mct_body body) {
    if (body.count != 6) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    uint32_t begun, first = mct_get32(body.bytes), count = mct_get16(body.bytes + 4);
    if (first == MCT_STREAM_ANEW) {
        mct_window_reset();
        p->heard_bytes = 0;
        first = 0;
    }
    const uint32_t total = mct_kept_total(&begun), behind = total - first;
    const uint32_t room = (MCT_MAX_BODY - 8u) / (2u * MCT_SAMPLE_NUMBERS);
    count = count < room ? count : room;
    count = count < behind ? count : behind;
    uint8_t *at = body.bytes + 8;
    for (uint32_t i = 0; i < count; i++) {
        int16_t sample[MCT_SAMPLE_NUMBERS];
        if (mct_kept_samples(first + i, 1, sample) != MCT_OK) {
            return mct_refuse(MCT_ANSWER_NOT_KEPT);
        }
        for (uint32_t k = 0; k < MCT_SAMPLE_NUMBERS; k++, at += 2) {
            mct_put16(at, (uint16_t)sample[k]);
        }
    }
    mct_put32(body.bytes, total);
    mct_put32(body.bytes + 4, begun);
    return mct_done((uint32_t)(at - body.bytes));
}
#endif

#endif
