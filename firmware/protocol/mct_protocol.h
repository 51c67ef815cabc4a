/* SPDX-License-Identifier: Apache-2.0 */
/* The device's side of docs/protocol.md: takes bytes, carries requests out, sends responses. */
#ifndef MCT_PROTOCOL_H
#define MCT_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "mct_frame.h"
#include "mct_model.h"
#include "mct_store.h"
#ifdef MCT_LEARN
#include "mct_board.h"
#include "mct_learn.h"
#endif

#define MCT_PROTOCOL_VERSION 1u
#ifdef MCT_REMEMBER
#define MCT_KEPT_BYTES 28u /* the longest response that is kept to be repeated */
#else
#define MCT_KEPT_BYTES 24u
#endif

typedef enum {
    MCT_COMMAND_IDENTIFY = 0x01,
    MCT_COMMAND_SAMPLE = 0x02,
    MCT_COMMAND_INFER = 0x03,
    MCT_COMMAND_TRAIN = 0x04,
    MCT_COMMAND_EVALUATE = 0x05,
    MCT_COMMAND_SET_RATE = 0x06,
    MCT_COMMAND_STATISTICS = 0x07,
    MCT_COMMAND_READ_STATE = 0x08,
    MCT_COMMAND_WRITE_STATE = 0x09,
    MCT_COMMAND_SAVE = 0x0A,
    MCT_COMMAND_RESTORE = 0x0B,
    MCT_COMMAND_RESET = 0x0C,
    MCT_COMMAND_READ_OUTPUT = 0x0D,
    MCT_COMMAND_LATENT = 0x0E,
    MCT_COMMAND_REPLAY = 0x0F,
    MCT_COMMAND_SELECT = 0x10,
    MCT_COMMAND_TIMES = 0x11,
    MCT_COMMAND_RESAMPLE = 0x12,
    MCT_COMMAND_LABELS = 0x13,
    MCT_COMMAND_COLLECT = 0x14,
    MCT_COMMAND_IMPRINT = 0x15,
    MCT_COMMAND_HEAR = 0x16,
    MCT_COMMAND_WINDOW = 0x17,
    MCT_COMMAND_TEACH = 0x18,
    MCT_COMMAND_LEARNT = 0x19,
    MCT_COMMAND_READ_WINDOW = 0x1A,
    MCT_COMMAND_READ_SAMPLES = 0x1B,
    MCT_RESPONSE = 0x80,
} mct_command;

typedef enum {
    MCT_ANSWER_OK = 0,
    MCT_ANSWER_WORKING = 1,
    MCT_ANSWER_FRAME = 16,
    MCT_ANSWER_VERSION = 17,
    MCT_ANSWER_COMMAND = 18,
    MCT_ANSWER_LENGTH = 19,
    MCT_ANSWER_SESSION = 20,
    MCT_ANSWER_SEQUENCE = 21,
    MCT_ANSWER_OFFSET = 22,
    MCT_ANSWER_SAMPLE_INCOMPLETE = 23,
    MCT_ANSWER_LABEL = 24,
    MCT_ANSWER_POSITION = 25,
    MCT_ANSWER_RATE = 26,
    MCT_ANSWER_NO_SAVED = 27,
    MCT_ANSWER_MODEL = 28,
    MCT_ANSWER_CHECKSUM = 29,
    MCT_ANSWER_FLASH = 30,
    MCT_ANSWER_STATE_INCOMPLETE = 31,
    MCT_ANSWER_UNSUPPORTED = 32,
    MCT_ANSWER_FORGOTTEN = 33,
    MCT_ANSWER_SHARE = 34,
    MCT_ANSWER_NOT_KEPT = 35,
} mct_answer;

typedef enum {
    MCT_RESET_WEIGHTS = 0,
    MCT_RESET_BOARD = 1,
    MCT_RESET_BOOTLOADER = 2,
} mct_reset_kind;

/* The response to the last request, for when it is asked for again. */
typedef struct {
    uint8_t body[MCT_KEPT_BYTES];
    uint16_t status;
    uint8_t count;
    uint8_t command;
} mct_kept;

#ifdef MCT_LEARN
/* How lessons are done, and what was learnt and told so far. steps: on each sample; replay: of what is
 * remembered behind each. Frames are counted from the start on. looked, since: frames so far, and since the
 * last inference. told: the last class, told_frame: at which frame. number: lessons; collected: samples of
 * new classes; label, frame: of the last of both, and where its window ended. failed: by the flash.
 * waited: waits since the last byte of a request that is not complete. */
typedef struct {
    mct_learning_rate rate;
    uint16_t steps, replay;
    uint32_t looked, since, inferences, detections;
    int32_t told;
    uint32_t told_frame, number, collected;
    int32_t label;
    uint32_t frame, failed, waited;
} mct_lesson;
#endif

typedef struct {
    uint64_t feed_cycles;  /* of the sample so far: of a front that is computed row by row */
    uint64_t train_cycles; /* of the last training step, with its sample's */
    uint64_t infer_cycles; /* of the last inference, with its sample's */
    mct_frame frame;       /* a request, then its response */
    mct_kept kept;
    mct_store store;
    const int8_t *output; /* of the last inference, NULL when it is gone */
    mct_learning_rate rate;
    uint16_t session; /* 0: none since the start */
    uint16_t sequence;
    uint32_t sample_bytes;  /* of the next sample, received so far */
    uint32_t written_bytes; /* of the state that is being written, 0: none is */
    uint8_t written_header[MCT_STATE_HEADER_BYTES];
#ifdef MCT_LABEL_BYTES
    uint32_t label_bytes; /* of the next sample, received so far */
    uint32_t reserved;    /* in the place of a count: firmware of all networks takes the same RAM */
#else
    uint32_t evaluated, correct;
#endif
    int32_t loss_q16, prediction;
    uint32_t saturations;
    uint32_t frames, damaged, repeated;
    uint8_t restored;   /* 1: a saved state was taken over at the start */
    uint8_t rate_set;   /* 1: rate is valid */
    uint8_t incomplete; /* 1: the state was written in part */
    uint8_t restart;    /* 1 + mct_reset_kind, when the response is sent */
#ifdef MCT_LISTENING_BYTES
    uint32_t heard_bytes; /* of raw samples, since the stream began */
#endif
#ifdef MCT_LEARN
    mct_learn learn;
    mct_lesson lesson;
#endif
#ifdef MCT_BUTTON
    mct_button button;
#endif
#ifdef MCT_LATENT_BYTES
    uint8_t is_latent; /* 1: what was received is a latent */
#endif
} mct_protocol;

/* Brings the model to the saved state, or to the one it came with. */
void mct_protocol_start(mct_protocol *p);

/* Takes in a byte; carries out the request that it completes, and answers. */
void mct_protocol_receive(mct_protocol *p, uint8_t byte);

#ifdef MCT_LEARN
/* Listens, while no request comes. */
void mct_protocol_wait(mct_protocol *p);
#endif

#endif
