/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_protocol.h"

#include <string.h>

#include "mct_board.h"
#include "mct_board_config.h"
#include "mct_bytes.h"

#define MCT_INITIAL_SEED 1u
#define MCT_RATE_SHIFT_MIN (-1100)
#define MCT_RATE_SHIFT_MAX 31

/* What a command answers: a status, and `count` bytes that it has put where its own body was. */
typedef struct {
    mct_answer status;
    uint32_t count;
} mct_outcome;

/* A request's body. Read it before writing the response, which takes its place. */
typedef struct {
    uint8_t *bytes;
    uint32_t count;
} mct_body;

static mct_outcome mct_refuse(mct_answer status) {
    return (mct_outcome){status, 0};
}

static mct_outcome mct_done(uint32_t count) {
    return (mct_outcome){MCT_ANSWER_OK, count};
}

/* A refusal that says where to go on. */
static mct_outcome mct_refuse_at(mct_answer status, mct_body body, uint32_t expected) {
    mct_put32(body.bytes, expected);
    return (mct_outcome){status, 4};
}

/* ---- frames ---- */

static void mct_protocol_send(mct_protocol *p, uint8_t command, mct_outcome outcome) {
    uint8_t *bytes = p->frame.bytes;
    bytes[0] = MCT_PROTOCOL_VERSION;
    bytes[1] = (uint8_t)(command | MCT_RESPONSE);
    mct_put16(bytes + 6, (uint16_t)outcome.status);
    mct_frame_send(bytes, MCT_HEADER_BYTES + outcome.count);
}

/* An answer to bytes that are no request: it belongs to no session. */
static void mct_protocol_send_damaged(mct_protocol *p) {
    mct_put32(p->frame.bytes + 2, 0);
    mct_protocol_send(p, 0, mct_refuse(MCT_ANSWER_FRAME));
}

/* Tells the host to be patient. The request's body stays as it is. */
static void mct_protocol_send_working(const mct_protocol *p) {
    uint8_t bytes[MCT_HEADER_BYTES + MCT_CRC_BYTES];
    memcpy(bytes, p->frame.bytes, MCT_HEADER_BYTES);
    bytes[1] |= MCT_RESPONSE;
    mct_put16(bytes + 6, MCT_ANSWER_WORKING);
    mct_frame_send(bytes, MCT_HEADER_BYTES);
}

/* ---- the state ---- */

static void mct_forget_sample(mct_protocol *p) {
    p->sample_bytes = 0;
    p->output = NULL;
#ifdef MCT_LABEL_BYTES
    p->label_bytes = 0;
#endif
}

/* After the state was replaced as a whole. */
static void mct_state_replaced(mct_protocol *p) {
    p->incomplete = 0;
    p->written_bytes = 0;
#ifdef MCT_IMPRINT_FEATURES
    mct_imprint_begin(); /* features of other weights */
#endif
#ifdef MCT_LEARN
    p->learn.left = 0;
#endif
}

/* Before it is replaced by one that no ring belongs to. */
static void mct_forget_ring(mct_protocol *p) {
#ifdef MCT_REMEMBER
    mct_store_forget(&p->store);
#else
    (void)p;
#endif
}

void mct_protocol_start(mct_protocol *p) {
    memset(p, 0, sizeof *p);
    p->prediction = -1;
#ifdef MCT_LEARN
    mct_learn_start(&p->learn);
    p->lesson.told = p->lesson.label = -1;
#endif
    mct_frame_clear(&p->frame);
    mct_reset(MCT_INITIAL_SEED);
    mct_store_start(&p->store);
    p->restored = mct_store_load(&p->store) ? 1 : 0;
}

/* ---- commands ---- */

static uint32_t mct_put_text(uint8_t *to, const char *text) {
    const uint32_t count = (uint32_t)strlen(text) + 1;
    memcpy(to, text, count);
    return count;
}

/* Slots of the ring, and samples that were offered to it. */
#ifdef MCT_REMEMBER
#define MCT_RING(p) MCT_REMEMBER, (p)->store.seen
#else
#define MCT_RING(p) 0u, 0u
#endif

#ifdef MCT_LATENT_BYTES
/* What comes now is a latent, or a sample: of the other nothing is there any more. */
static void mct_begin(mct_protocol *p, bool is_latent) {
    if (p->is_latent != is_latent) {
        p->is_latent = is_latent;
        p->sample_bytes = 0;
    }
}
#endif

static mct_outcome mct_sample(mct_protocol *p, mct_body body) {
    if (body.count < 5) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t offset = mct_get32(body.bytes);
    const uint32_t count = body.count - 4;
#ifdef MCT_LATENT_BYTES
    mct_begin(p, false);
#endif
    if (offset != 0 && offset != p->sample_bytes) {
        return mct_refuse_at(MCT_ANSWER_OFFSET, body, p->sample_bytes);
    }
    if (count > MCT_INPUT_BYTES - offset) {
        return mct_refuse_at(MCT_ANSWER_OFFSET, body, p->sample_bytes);
    }
    p->output = NULL; /* the input may lie where the scores were */
#ifdef MCT_LABEL_BYTES
    p->label_bytes = offset == 0 ? 0 : p->label_bytes;
#endif
    const uint64_t before = mct_board_cycles();
    (void)mct_feed(offset, (const int8_t *)body.bytes + 4, count); /* they are the next ones */
    p->feed_cycles = (offset == 0 ? 0 : p->feed_cycles) + mct_board_cycles() - before;
    p->sample_bytes = offset + count;
    mct_put32(body.bytes, p->sample_bytes);
    return mct_done(4);
}

static void mct_run_inference(mct_protocol *p) {
    const uint64_t before = mct_board_cycles();
#ifdef MCT_LATENT_BYTES
    const int8_t *output = p->is_latent ? mct_infer_latent(mct_latent()) : mct_infer();
#else
    const int8_t *output = mct_infer();
#endif
    p->infer_cycles = p->feed_cycles + mct_board_cycles() - before;
    mct_forget_sample(p);
    p->output = output;
#ifdef MCT_THRESHOLD
    p->prediction = output[0] > MCT_THRESHOLD;
#else
    p->prediction = 0;
    for (int32_t i = 1; i < MCT_CLASSES; i++) {
        if (output[i] > output[p->prediction]) {
            p->prediction = i;
        }
    }
#endif
}

/* What INFER, TRAIN and EVALUATE need. */
static mct_answer mct_ready(const mct_protocol *p) {
    if (p->incomplete) {
        return MCT_ANSWER_STATE_INCOMPLETE;
    }
#ifdef MCT_LATENT_BYTES
    const uint32_t size = p->is_latent ? MCT_LATENT_BYTES : MCT_INPUT_BYTES;
#else
    const uint32_t size = MCT_INPUT_BYTES;
#endif
    return p->sample_bytes == size ? MCT_ANSWER_OK : MCT_ANSWER_SAMPLE_INCOMPLETE;
}

static mct_outcome mct_infer_sample(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const mct_answer ready = mct_ready(p);
    if (ready != MCT_ANSWER_OK) {
        return mct_refuse(ready);
    }
    mct_protocol_send_working(p);
    mct_run_inference(p);
    mct_put32(body.bytes, (uint32_t)p->prediction);
    mct_put64(body.bytes + 4, p->infer_cycles);
    return mct_done(12);
}

static mct_answer mct_read_rate(const uint8_t *bytes, mct_learning_rate *rate) {
    rate->mult_q31 = (int32_t)mct_get32(bytes);
    rate->shift = (int32_t)mct_get32(bytes + 4);
    const bool normal = rate->mult_q31 == 0 || rate->mult_q31 >= 1 << 30;
    const bool in_range = rate->shift >= MCT_RATE_SHIFT_MIN && rate->shift <= MCT_RATE_SHIFT_MAX;
    return normal && in_range ? MCT_ANSWER_OK : MCT_ANSWER_RATE;
}

/* What a training step answers. */
static mct_outcome mct_trained(mct_protocol *p, const mct_result *result, mct_body body) {
    mct_forget_sample(p);
    p->loss_q16 = result->loss_q16;
    p->prediction = result->prediction;
    p->saturations = mct_saturations();
    mct_put32(body.bytes, (uint32_t)p->loss_q16);
    mct_put32(body.bytes + 4, (uint32_t)p->prediction);
    mct_put32(body.bytes + 8, mct_position());
    mct_put64(body.bytes + 12, p->train_cycles);
    mct_put32(body.bytes + 20, p->saturations);
    return mct_done(24);
}

static mct_outcome mct_train_sample_now(mct_protocol *p, mct_body body) {
    if (body.count != 8 && body.count != 16) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const int32_t label = (int32_t)mct_get32(body.bytes);
    mct_learning_rate rate = p->rate;
    mct_answer ready = p->rate_set ? MCT_ANSWER_OK : MCT_ANSWER_RATE;
    if (body.count == 16) {
        ready = mct_read_rate(body.bytes + 8, &rate);
    }
    if (ready == MCT_ANSWER_OK) {
        ready = mct_ready(p);
    }
#ifdef MCT_LABEL_BYTES
    if (ready == MCT_ANSWER_OK && p->label_bytes != MCT_LABEL_BYTES) {
        ready = MCT_ANSWER_SAMPLE_INCOMPLETE;
    }
    if (ready == MCT_ANSWER_OK && (label != 0 || !mct_labels_are_known())) {
        ready = MCT_ANSWER_LABEL;
    }
#else
    if (ready == MCT_ANSWER_OK && (label < 0 || label >= MCT_CLASSES)) {
        ready = MCT_ANSWER_LABEL;
    }
#endif
    if (ready != MCT_ANSWER_OK) {
        return mct_refuse(ready);
    }
    if (mct_get32(body.bytes + 4) != mct_position()) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_position());
    }
    mct_protocol_send_working(p);
    mct_result result;
    const uint64_t before = mct_board_cycles();
#ifdef MCT_LATENT_BYTES
    const int8_t *latent = p->is_latent ? mct_latent() : mct_front();
#ifdef MCT_REMEMBER
    if (!mct_store_offer(&p->store, latent, label, body.bytes)) {
        mct_forget_sample(p);
        return mct_refuse(MCT_ANSWER_FLASH);
    }
#endif
    (void)mct_train_latent(latent, label, rate, &result);
#else
    (void)mct_train(label, rate, &result); /* fails for a wrong label only */
#endif
    p->train_cycles = p->feed_cycles + mct_board_cycles() - before;
    return mct_trained(p, &result, body);
}

static mct_outcome mct_set_rate(mct_protocol *p, mct_body body) {
    if (body.count != 8) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    mct_learning_rate rate;
    const mct_answer valid = mct_read_rate(body.bytes, &rate);
    if (valid != MCT_ANSWER_OK) {
        return mct_refuse(valid);
    }
    p->rate = rate;
    p->rate_set = 1;
    return mct_done(0);
}

static mct_outcome mct_statistics(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    uint8_t *at = body.bytes;
    mct_put32(at, mct_position());
    mct_put32(at + 4, (uint32_t)p->loss_q16);
    mct_put32(at + 8, (uint32_t)p->prediction);
    mct_put32(at + 12, p->saturations);
    mct_put64(at + 16, p->train_cycles);
    mct_put64(at + 24, p->infer_cycles);
    mct_put32(at + 32, mct_board_stack_used());
    mct_put32(at + 36, p->frames);
    mct_put32(at + 40, p->damaged);
    mct_put32(at + 44, p->repeated);
    mct_put32(at + 48, p->store.number);
#ifdef MCT_REMEMBER
    mct_put32(at + 52, p->store.seen);
    mct_put32(at + 56, p->store.erased);
    return mct_done(60);
#else
    return mct_done(52);
#endif
}

/* Offset and count of a reading command, for something of `size` bytes. */
static mct_answer mct_read_range(mct_body body, uint32_t size, uint32_t *offset, uint32_t *count) {
    if (body.count != 6) {
        return MCT_ANSWER_LENGTH;
    }
    *offset = mct_get32(body.bytes);
    *count = mct_get16(body.bytes + 4);
    if (*offset > size) {
        return MCT_ANSWER_OFFSET;
    }
    *count = *count > MCT_MAX_BODY ? MCT_MAX_BODY : *count;
    *count = *count > size - *offset ? size - *offset : *count;
    return MCT_ANSWER_OK;
}

static mct_outcome mct_read_state(mct_protocol *p, mct_body body) {
    uint32_t offset, count;
    const mct_answer valid = mct_read_range(body, MCT_SAVED_BYTES, &offset, &count);
    if (valid == MCT_ANSWER_OFFSET) {
        return mct_refuse_at(valid, body, MCT_SAVED_BYTES);
    }
    if (valid != MCT_ANSWER_OK) {
        return mct_refuse(valid);
    }
    if (p->incomplete) {
        return mct_refuse(MCT_ANSWER_STATE_INCOMPLETE);
    }
    mct_state_read(offset, count, body.bytes);
    return mct_done(count);
}

static mct_outcome mct_read_output(mct_protocol *p, mct_body body) {
    uint32_t offset, count;
    const mct_answer valid = mct_read_range(body, MCT_OUTPUT_BYTES, &offset, &count);
    if (valid == MCT_ANSWER_OFFSET) {
        return mct_refuse_at(valid, body, MCT_OUTPUT_BYTES);
    }
    if (valid != MCT_ANSWER_OK) {
        return mct_refuse(valid);
    }
    if (p->output == NULL) {
        return mct_refuse(MCT_ANSWER_SAMPLE_INCOMPLETE);
    }
    memcpy(body.bytes, p->output + offset, count);
    return mct_done(count);
}

static mct_outcome mct_saved_number(const mct_protocol *p, mct_body body) {
    mct_put32(body.bytes, p->store.number);
    mct_put32(body.bytes + 4, mct_position());
    return mct_done(8);
}

static mct_outcome mct_save(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    if (p->incomplete) {
        return mct_refuse(MCT_ANSWER_STATE_INCOMPLETE);
    }
    mct_protocol_send_working(p);
    /* the page is the space of the request's body, which is empty */
    _Static_assert(MCT_PAGE_BYTES <= MCT_MAX_BODY, "a page of flash must fit in a body");
    if (!mct_store_save(&p->store, MCT_ROLE_NONE, body.bytes)) {
        return mct_refuse(MCT_ANSWER_FLASH);
    }
    return mct_saved_number(p, body);
}

/* The newest saved state is that of now; false, and nothing changes, if there is none. */
static bool mct_take_saved(mct_protocol *p) {
    mct_store_start(&p->store);
    if (!mct_store_load(&p->store)) {
        return false;
    }
    mct_state_replaced(p);
    mct_forget_sample(p);
    return true;
}

static mct_outcome mct_restore(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    mct_protocol_send_working(p);
    if (!mct_take_saved(p)) {
        return mct_refuse(MCT_ANSWER_NO_SAVED);
    }
    return mct_saved_number(p, body);
}

static mct_outcome mct_reset_to(mct_protocol *p, mct_body body) {
    if (body.count != 5) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    switch (body.bytes[0]) {
    case MCT_RESET_WEIGHTS:
        mct_reset(mct_get32(body.bytes + 1));
#ifdef MCT_LISTENING_BYTES
        p->heard_bytes = 0;
#endif
        mct_state_replaced(p);
        mct_forget_sample(p);
        mct_forget_ring(p);
        break;
    case MCT_RESET_BOARD:
        p->restart = 1 + MCT_RESET_BOARD;
        break;
    case MCT_RESET_BOOTLOADER:
        if (!MCT_HAS_BOOTLOADER) {
            return mct_refuse(MCT_ANSWER_UNSUPPORTED);
        }
        p->restart = 1 + MCT_RESET_BOOTLOADER;
        break;
    default:
        return mct_refuse(MCT_ANSWER_COMMAND);
    }
    mct_put32(body.bytes, mct_position());
    return mct_done(4);
}
#include "mct_commands.h" /* generated: the parts of this program */

_Static_assert(sizeof MCT_BOARD_NAME + sizeof MCT_MODEL_NAME + sizeof MCT_SCHEME_NAME <= 256,
               "the names must fit in a response");

static mct_outcome mct_identify(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t flags = p->restored | (p->incomplete ? 0u : 2u) |
                           (mct_store_exists() ? 4u : 0u) | (p->store.foreign ? 8u : 0u) |
                           MCT_PART_FLAGS;
    const uint32_t numbers[] = {
        mct_position(),         MCT_INPUT_BYTES,    MCT_OUTPUT_BYTES,     MCT_CLASSES,
        MCT_SAMPLES_PER_UPDATE, MCT_ARENA_BYTES,    MCT_STATE_BYTES,      MCT_SAVED_BYTES,
        MCT_STACK_BYTES,        MCT_SRAM_BYTES,     mct_board_clock_hz(), p->store.number,
#ifdef MCT_LATENT_BYTES
        MCT_LATENT_BYTES,       MCT_RING(p),
#endif
#ifdef MCT_LABEL_BYTES
        MCT_LABEL_BYTES,
#endif
#ifdef MCT_LISTENING_BYTES
        MCT_SAMPLE_NUMBERS,     MCT_WINDOW_SAMPLES,
#endif
    };
    uint8_t *at = body.bytes;
    mct_put16(at, MCT_MAX_BODY);
    mct_put16(at + 2, (uint16_t)flags);
    mct_put64(at + 4, MCT_MODEL_HASH);
    at += 12;
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++, at += 4) {
        mct_put32(at, numbers[i]);
    }
    at += mct_put_text(at, MCT_BOARD_NAME);
    at += mct_put_text(at, MCT_MODEL_NAME);
    at += mct_put_text(at, MCT_SCHEME_NAME);
    return mct_done((uint32_t)(at - body.bytes));
}

/* What every firmware carries out; the parts of a program add theirs. true: it only reads, with a response
 * too long to keep, and is carried out again when repeated. */
#define MCT_COMMANDS(X)                                                                            \
    X(MCT_COMMAND_IDENTIFY, mct_identify, true)                                                    \
    X(MCT_COMMAND_SAMPLE, mct_sample, false)                                                       \
    X(MCT_COMMAND_INFER, mct_infer_sample, false)                                                  \
    X(MCT_COMMAND_TRAIN, mct_train_sample_now, false)                                              \
    X(MCT_COMMAND_SET_RATE, mct_set_rate, false)                                                   \
    X(MCT_COMMAND_STATISTICS, mct_statistics, true)                                                \
    X(MCT_COMMAND_READ_STATE, mct_read_state, true)                                                \
    X(MCT_COMMAND_SAVE, mct_save, false)                                                           \
    X(MCT_COMMAND_RESTORE, mct_restore, false)                                                     \
    X(MCT_COMMAND_RESET, mct_reset_to, false)                                                      \
    X(MCT_COMMAND_READ_OUTPUT, mct_read_output, true)                                              \
    MCT_PART_COMMANDS(X)

static mct_outcome mct_carry_out(mct_protocol *p, uint8_t command, mct_body body) {
#define MCT_CASE(name, function, only_reads)                                                       \
    case name:                                                                                     \
        return function(p, body);
    switch (command) {
        MCT_COMMANDS(MCT_CASE)
    default:
        return mct_refuse(MCT_ANSWER_COMMAND);
    }
#undef MCT_CASE
}

/* ---- sessions and sequence numbers ---- */

static bool mct_only_reads(uint8_t command) {
#define MCT_CASE(name, function, only_reads)                                                       \
    case name:                                                                                     \
        return only_reads;
    switch (command) {
        MCT_COMMANDS(MCT_CASE)
    default:
        return false;
    }
#undef MCT_CASE
}

static void mct_keep(mct_protocol *p, uint8_t command, mct_body body, mct_outcome outcome) {
    p->kept.command = command;
    p->kept.status = (uint16_t)outcome.status;
    p->kept.count = (uint8_t)(outcome.count <= MCT_KEPT_BYTES ? outcome.count : 0);
    memcpy(p->kept.body, body.bytes, p->kept.count);
}

static void mct_execute(mct_protocol *p, uint8_t command, mct_body body) {
    const mct_outcome outcome = mct_carry_out(p, command, body);
    mct_keep(p, command, body, outcome);
    mct_protocol_send(p, command, outcome);
    if (p->restart == 1 + MCT_RESET_BOOTLOADER) {
        (void)mct_board_bootloader();
    }
    if (p->restart != 0) {
        mct_board_restart();
    }
}

static void mct_repeat(mct_protocol *p, uint8_t command, mct_body body) {
    p->repeated++;
    if (command != p->kept.command) {
        mct_protocol_send(p, command, mct_refuse(MCT_ANSWER_SEQUENCE));
    } else if (mct_only_reads(command)) {
        mct_protocol_send(p, command, mct_carry_out(p, command, body));
    } else {
        memcpy(body.bytes, p->kept.body, p->kept.count);
        const mct_outcome outcome = {(mct_answer)p->kept.status, p->kept.count};
        mct_protocol_send(p, command, outcome);
    }
}

static void mct_request(mct_protocol *p) {
    const uint8_t *header = p->frame.bytes;
    const mct_body body = {p->frame.bytes + MCT_HEADER_BYTES, p->frame.count - MCT_HEADER_BYTES};
    const uint8_t command = header[1];
    const uint16_t session = mct_get16(header + 2);
    const uint16_t sequence = mct_get16(header + 4);
    if (header[0] != MCT_PROTOCOL_VERSION) {
        mct_protocol_send(p, command, mct_refuse(MCT_ANSWER_VERSION));
    } else if (command == MCT_COMMAND_IDENTIFY && session != 0 && session != p->session) {
        p->session = session;
        p->sequence = sequence;
        mct_forget_sample(p);
        mct_execute(p, command, body);
    } else if (session == 0 || session != p->session) {
        mct_protocol_send(p, command, mct_refuse(MCT_ANSWER_SESSION));
    } else if (sequence == p->sequence) {
        mct_repeat(p, command, body);
    } else if (sequence == (uint16_t)(p->sequence + 1)) {
        p->sequence = sequence;
        mct_execute(p, command, body);
    } else {
        mct_protocol_send(p, command, mct_refuse(MCT_ANSWER_SEQUENCE));
    }
}

void mct_protocol_receive(mct_protocol *p, uint8_t byte) {
#ifdef MCT_LEARN
    p->lesson.waited = 0;
#endif
    const mct_frame_event event = mct_frame_receive(&p->frame, byte);
    if (event == MCT_FRAME_GOOD) {
        p->frames++;
        mct_request(p);
    } else if (event == MCT_FRAME_DAMAGED) {
        p->damaged++;
        mct_protocol_send_damaged(p);
    }
    if (byte == 0) {
        mct_frame_clear(&p->frame);
    }
}
