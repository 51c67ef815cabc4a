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

#ifdef MCT_LATENT_BYTES
#define MCT_LATENT_FLAG 16u
#else
#define MCT_LATENT_FLAG 0u
#endif

#ifdef MCT_FORWARD_TIME
#define MCT_SELECTS_FLAG 32u
#else
#define MCT_SELECTS_FLAG 0u
#endif

#ifdef MCT_TIMED_NODES
#define MCT_TIMES_FLAG 64u
#else
#define MCT_TIMES_FLAG 0u
#endif

#ifdef MCT_SHELF_BYTES
#define MCT_SWAPS_FLAG 128u
#else
#define MCT_SWAPS_FLAG 0u
#endif

#ifdef MCT_LABEL_BYTES
#define MCT_POSITIONS_FLAG 256u
#else
#define MCT_POSITIONS_FLAG 0u
#endif

#ifdef MCT_IMPRINT_FEATURES
#define MCT_IMPRINTS_FLAG 512u
#else
#define MCT_IMPRINTS_FLAG 0u
#endif

/* Slots of the ring, and samples that were offered to it. */
#ifdef MCT_REMEMBER
#define MCT_RING(p) MCT_REMEMBER, (p)->store.seen
#else
#define MCT_RING(p) 0u, 0u
#endif

_Static_assert(sizeof MCT_BOARD_NAME + sizeof MCT_MODEL_NAME + sizeof MCT_SCHEME_NAME <= 256,
               "the names must fit in a response");

static mct_outcome mct_identify(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const uint32_t flags = p->restored | (p->incomplete ? 0u : 2u) |
                           (mct_store_exists() ? 4u : 0u) | (p->store.foreign ? 8u : 0u) |
                           MCT_LATENT_FLAG | MCT_SELECTS_FLAG | MCT_TIMES_FLAG | MCT_SWAPS_FLAG |
                           MCT_POSITIONS_FLAG | MCT_IMPRINTS_FLAG;
    const uint32_t numbers[] = {
        mct_position(),         MCT_INPUT_BYTES, MCT_OUTPUT_BYTES,     MCT_CLASSES,
        MCT_SAMPLES_PER_UPDATE, MCT_ARENA_BYTES, MCT_STATE_BYTES,      MCT_SAVED_BYTES,
        MCT_STACK_BYTES,        MCT_SRAM_BYTES,  mct_board_clock_hz(), p->store.number,
#ifdef MCT_LATENT_BYTES
        MCT_LATENT_BYTES,       MCT_RING(p),
#endif
#ifdef MCT_LABEL_BYTES
        MCT_LABEL_BYTES,
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

#ifdef MCT_LATENT_BYTES
/* What comes now is a latent, or a sample: of the other nothing is there any more. */
static void mct_begin(mct_protocol *p, bool is_latent) {
    if (p->is_latent != is_latent) {
        p->is_latent = is_latent;
        p->sample_bytes = 0;
    }
}

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

#ifdef MCT_LABEL_BYTES
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
    p->prediction = 0;
    for (int32_t i = 1; i < MCT_CLASSES; i++) {
        if (output[i] > output[p->prediction]) {
            p->prediction = i;
        }
    }
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

#ifdef MCT_REMEMBER
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

#ifndef MCT_LABEL_BYTES
static mct_outcome mct_evaluate(mct_protocol *p, mct_body body) {
    if (body.count != 8) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const int32_t label = (int32_t)mct_get32(body.bytes);
    const uint32_t index = mct_get32(body.bytes + 4);
    const mct_answer ready = mct_ready(p);
    if (ready != MCT_ANSWER_OK) {
        return mct_refuse(ready);
    }
    if (label < 0 || label >= MCT_CLASSES) {
        return mct_refuse(MCT_ANSWER_LABEL);
    }
    if (index != 0 && index != p->evaluated) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, p->evaluated);
    }
    mct_protocol_send_working(p);
    if (index == 0) {
        p->evaluated = 0;
        p->correct = 0;
    }
    mct_run_inference(p);
    p->evaluated++;
    p->correct += p->prediction == label;
    mct_put32(body.bytes, (uint32_t)p->prediction);
    mct_put32(body.bytes + 4, p->evaluated);
    mct_put32(body.bytes + 8, p->correct);
    mct_put64(body.bytes + 12, p->infer_cycles);
    return mct_done(20);
}

#endif

#ifdef MCT_IMPRINT_FEATURES
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

#ifdef MCT_TIMED_NODES
/* An empty body forgets the times so far. */
static mct_outcome mct_read_times(mct_body body) {
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

#ifndef MCT_SHELF_BYTES
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

#if defined(MCT_FORWARD_TIME) || defined(MCT_SHELF_BYTES)
/* Whether the newest saved state is the present one: after a restart it may be, and one more save of it
 * might take the place of the one before. */
static bool mct_is_kept(const mct_protocol *p) {
    uint8_t header[MCT_STATE_HEADER_BYTES]; /* with the checksum */
    mct_state_read(0, sizeof header, header);
    const uint8_t *saved = mct_store_newest(&p->store);
    return saved != NULL && memcmp(saved, header, sizeof header) == 0;
}
#endif

#ifdef MCT_SHELF_BYTES
/* Other columns are trained from here on, once at a position. The page is the body's space. */
static mct_outcome mct_swap_now(mct_protocol *p, mct_body body) {
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

#ifdef MCT_FORWARD_TIME

/* What SELECT asks for. squares: they decide, by one saved state. */
typedef struct {
    uint32_t share_q16, every;
    bool squares;
} mct_selecting;

/* Selects from the states that were saved at the windows' begins. */
static mct_answer mct_select_now(const mct_protocol *p, const mct_selecting *s) {
    const uint32_t look = mct_selection_look(s->every, MCT_SAMPLES_PER_UPDATE);
    const uint32_t position = mct_position();
    const uint8_t *before = mct_store_find(&p->store, position - 2u * look);
    const uint8_t *between = s->squares ? NULL : mct_store_find(&p->store, position - look);
    if (before == NULL || (between == NULL && !s->squares)) {
        return MCT_ANSWER_NOT_KEPT;
    }
    const mct_status status = mct_reselect(s->share_q16, s->every, before, between);
    return status == MCT_OK ? MCT_ANSWER_OK : MCT_ANSWER_SHARE;
}

/* Does what is due at the position. The page is the body's space, which is read before. */
static mct_outcome mct_select_at(mct_protocol *p, mct_body body) {
    if (body.count != 8 && body.count != 9) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const mct_selecting s = {mct_get32(body.bytes), mct_get32(body.bytes + 4),
                             body.count == 9 && body.bytes[8] != 0};
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    if (p->incomplete) {
        return mct_refuse(MCT_ANSWER_STATE_INCOMPLETE);
    }
    if (s.share_q16 > MCT_SELECTION_WHOLE_Q16 ||
        !mct_selection_is_sound(s.every, MCT_SAMPLES_PER_UPDATE)) {
        return mct_refuse(MCT_ANSWER_SHARE);
    }
    const mct_selection_due due = mct_selection_at(mct_position(), s.every, MCT_SAMPLES_PER_UPDATE);
    if (due == MCT_SELECTION_STAYS || (due == MCT_SELECTION_LOOKS_ON && s.squares)) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, mct_position());
    }
    mct_protocol_send_working(p);
    mct_forget_sample(p);
    if (due == MCT_SELECTION_ENDS) {
        const mct_answer selected = mct_select_now(p, &s);
        return selected == MCT_ANSWER_OK ? mct_saved_number(p, body) : mct_refuse(selected);
    }
    if (due == MCT_SELECTION_BEGINS) {
        mct_select_all();
    }
    const mct_role role = due == MCT_SELECTION_BEGINS ? MCT_ROLE_BEFORE : MCT_ROLE_BETWEEN;
    const bool is_kept = mct_is_kept(p) && mct_store_role(&p->store) == role;
    if (!is_kept && !mct_store_save(&p->store, role, body.bytes)) {
        return mct_refuse(MCT_ANSWER_FLASH);
    }
    return mct_saved_number(p, body);
}
#endif

static mct_outcome mct_restore(mct_protocol *p, mct_body body) {
    if (body.count != 0) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    if (!mct_store_exists()) {
        return mct_refuse(MCT_ANSWER_UNSUPPORTED);
    }
    mct_protocol_send_working(p);
    mct_store_start(&p->store);
    if (!mct_store_load(&p->store)) {
        return mct_refuse(MCT_ANSWER_NO_SAVED);
    }
    mct_state_replaced(p);
    mct_forget_sample(p);
    return mct_saved_number(p, body);
}

static mct_outcome mct_reset_to(mct_protocol *p, mct_body body) {
    if (body.count != 5) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    switch (body.bytes[0]) {
    case MCT_RESET_WEIGHTS:
        mct_reset(mct_get32(body.bytes + 1));
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

static mct_outcome mct_carry_out(mct_protocol *p, uint8_t command, mct_body body) {
    switch (command) {
    case MCT_COMMAND_IDENTIFY:
        return mct_identify(p, body);
    case MCT_COMMAND_SAMPLE:
        return mct_sample(p, body);
#ifdef MCT_LABEL_BYTES
    case MCT_COMMAND_LABELS:
        return mct_labels_piece(p, body);
#endif
    case MCT_COMMAND_INFER:
        return mct_infer_sample(p, body);
    case MCT_COMMAND_TRAIN:
        return mct_train_sample_now(p, body);
#ifndef MCT_LABEL_BYTES /* the host judges the output */
    case MCT_COMMAND_EVALUATE:
        return mct_evaluate(p, body);
#endif
    case MCT_COMMAND_SET_RATE:
        return mct_set_rate(p, body);
    case MCT_COMMAND_STATISTICS:
        return mct_statistics(p, body);
    case MCT_COMMAND_READ_STATE:
        return mct_read_state(p, body);
#ifndef MCT_SHELF_BYTES /* its state ends in flash, which is not written over the line */
    case MCT_COMMAND_WRITE_STATE:
        return mct_write_state(p, body);
#endif
    case MCT_COMMAND_SAVE:
        return mct_save(p, body);
    case MCT_COMMAND_RESTORE:
        return mct_restore(p, body);
    case MCT_COMMAND_RESET:
        return mct_reset_to(p, body);
    case MCT_COMMAND_READ_OUTPUT:
        return mct_read_output(p, body);
#ifdef MCT_LATENT_BYTES
    case MCT_COMMAND_LATENT:
        return mct_latent_piece(p, body);
#endif
#ifdef MCT_REMEMBER
    case MCT_COMMAND_REPLAY:
        return mct_replay_now(p, body);
#endif
#ifdef MCT_FORWARD_TIME
    case MCT_COMMAND_SELECT:
        return mct_select_at(p, body);
#endif
#ifdef MCT_TIMED_NODES
    case MCT_COMMAND_TIMES:
        return mct_read_times(body);
#endif
#ifdef MCT_IMPRINT_FEATURES
    case MCT_COMMAND_COLLECT:
        return mct_collect(p, body);
    case MCT_COMMAND_IMPRINT:
        return mct_imprint_now(p, body);
#endif
#ifdef MCT_SHELF_BYTES
    case MCT_COMMAND_SWAP:
        return mct_swap_now(p, body);
#endif
    default:
        return mct_refuse(MCT_ANSWER_COMMAND);
    }
}

/* ---- sessions and sequence numbers ---- */

/* Commands that only read, with responses too long to keep: carried out again when repeated. */
static bool mct_only_reads(uint8_t command) {
    return command == MCT_COMMAND_IDENTIFY || command == MCT_COMMAND_STATISTICS ||
#ifdef MCT_TIMED_NODES
           command == MCT_COMMAND_TIMES ||
#endif
           command == MCT_COMMAND_READ_STATE || command == MCT_COMMAND_READ_OUTPUT;
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
