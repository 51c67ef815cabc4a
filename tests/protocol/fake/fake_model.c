/* The model of mct_model.h: its state is a counter and a running mix of what was learnt. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "mct_bytes.h"
#include "mct_model.h"

static int8_t input[MCT_INPUT_BYTES];
static int8_t output[MCT_OUTPUT_BYTES];
static uint8_t state[MCT_STATE_BYTES];
static const uint8_t *backing; /* the saved state that has the weights which are not trained now */
uint32_t fake_steps, fake_chosen;

void mct_reset(uint32_t seed) {
    backing = NULL;
    memset(state, 0, sizeof state);
    mct_put32(state, seed);
    fake_steps = 0;
}

mct_status mct_feed(uint32_t offset, const int8_t *bytes, uint32_t count) {
    memcpy(input + offset, bytes, count);
    return MCT_OK;
}

const int8_t *mct_infer(void) {
    for (int32_t i = 0; i < MCT_OUTPUT_BYTES; i++) {
        output[i] = (int8_t)(input[i] ^ state[i]);
    }
    return output;
}

static void learn(const int8_t *x, uint32_t count, int32_t label, mct_learning_rate rate,
                  mct_result *result) {
    fake_steps++;
    mct_put32(state + 4, mct_get32(state + 4) + 1);
    for (uint32_t i = 8; i < MCT_STATE_BYTES; i++) {
        state[i] = (uint8_t)(state[i] * 31u + (uint8_t)x[i % count] + (uint32_t)label);
    }
    result->loss_q16 = rate.mult_q31 ^ rate.shift;
    result->prediction = 0;
}

#ifdef MCT_LABEL_BYTES
static uint8_t labels[MCT_LABEL_BYTES];

uint8_t *mct_labels(void) {
    return labels;
}

int32_t mct_labels_are_known(void) {
    for (uint32_t n = 0; n < MCT_LABEL_BYTES; n++) {
        if (labels[n] >= MCT_CLASSES && labels[n] != MCT_IGNORED) {
            return 0;
        }
    }
    return 1;
}
#endif

mct_status mct_train(int32_t label, mct_learning_rate rate, mct_result *result) {
#ifdef MCT_LABEL_BYTES
    if (!mct_labels_are_known()) {
        abort();
    }
#endif
    learn(input, MCT_INPUT_BYTES, label, rate, result);
    return MCT_OK;
}

#ifdef MCT_REMEMBER
static int8_t latent_place[MCT_LATENT_BYTES];

int8_t *mct_latent(void) {
    return latent_place;
}

const int8_t *mct_front(void) {
    for (int32_t i = 0; i < MCT_LATENT_BYTES; i++) {
        latent_place[i] = (int8_t)(input[i % MCT_INPUT_BYTES] ^ 1);
    }
    return latent_place;
}

const int8_t *mct_infer_latent(const int8_t *latent) {
    for (int32_t i = 0; i < MCT_OUTPUT_BYTES; i++) {
        output[i] = (int8_t)(latent[i] ^ state[i]);
    }
    return output;
}

mct_status mct_train_latent(const int8_t *latent, int32_t label, mct_learning_rate rate,
                            mct_result *result) {
    learn(latent, MCT_LATENT_BYTES, label, rate, result);
    return MCT_OK;
}
#endif

#ifdef MCT_FORWARD_TIME
/* The last words of the state are the selection: all, or what the two states say. */
#define SELECTION (state + MCT_STATE_BYTES - 4)

void mct_select_all(void) {
    mct_put32(SELECTION, UINT32_MAX);
}

uint32_t mct_state_position(const uint8_t *saved) {
    return mct_get32(saved + MCT_STATE_HEADER_BYTES + 4);
}

mct_status mct_reselect(uint32_t share_q16, uint32_t every, const uint8_t before[MCT_SAVED_BYTES],
                        const uint8_t *between) {
    if (share_q16 < FAKE_LEAST_SHARE) {
        return MCT_ERROR_BUDGET;
    }
    const uint32_t mixed = mct_get32(before + MCT_SAVED_BYTES - 8) * 31u +
                           (between == NULL ? 0u : mct_get32(between + MCT_SAVED_BYTES - 8)) +
                           every;
    mct_put32(SELECTION, mixed);
    fake_chosen++;
    return MCT_OK;
}
#endif

#ifdef MCT_BACKING_BYTES
/* Nothing is in the backing store but what can be read: the state where it was saved last. */
#define SWAPPED (state + MCT_STATE_BYTES - 8)

void mct_shelve(const uint8_t saved[MCT_SAVED_BYTES]) {
    if (mct_state_verify(saved, MCT_SAVED_BYTES) != MCT_OK) {
        abort();
    }
    backing = saved;
}

void mct_swap_begin(void) {
}

int32_t mct_swap_is_due(void) {
    return mct_get32(SWAPPED) != mct_position() + 1u;
}

mct_status mct_swap(const uint8_t saved[MCT_SAVED_BYTES]) {
    uint8_t now[MCT_STATE_HEADER_BYTES];
    mct_state_read(0, sizeof now, now);
    if (memcmp(saved, now, sizeof now) != 0) {
        return MCT_ERROR_CHECKSUM;
    }
    mct_shelve(saved);
    mct_put32(SWAPPED, mct_position() + 1u);
    return MCT_OK;
}
#endif

#ifdef MCT_TIMED_NODES
static uint32_t ticks[MCT_TIMED_NODES];

const uint32_t *mct_fewest_ticks(void) {
    return ticks;
}

void mct_forget_times(void) {
    memset(ticks, 0xFF, sizeof ticks);
}
#endif

#ifdef MCT_IMPRINT_FEATURES
static uint32_t collected;

void mct_imprint_begin(void) {
    collected = 0;
}

uint32_t mct_imprint_samples(void) {
    return collected;
}

mct_status mct_imprint_sample(void) {
    if (collected == FAKE_MOST_COLLECTED) {
        return MCT_ERROR_SIZE;
    }
    (void)mct_infer();
    collected++;
    return MCT_OK;
}

mct_status mct_imprint(int32_t label, int32_t known) {
    if (label < 0 || label >= MCT_CLASSES || known < 1 || known > MCT_CLASSES) {
        return MCT_ERROR_LABEL;
    }
    if (collected == 0) {
        return MCT_ERROR_SIZE;
    }
    state[8 + label] = (uint8_t)(collected + (uint32_t)known);
    collected = 0;
    return MCT_OK;
}
#endif

uint8_t *mct_state_bytes(void) {
    return state;
}

uint32_t mct_position(void) {
    return mct_get32(state + 4);
}

uint32_t mct_saturations(void) {
    return 3;
}

void mct_state_save(uint8_t saved[MCT_SAVED_BYTES]) {
    mct_state_header(MCT_MODEL_HASH, state, MCT_STATE_BYTES, saved);
    memcpy(saved + MCT_STATE_HEADER_BYTES, state, MCT_STATE_BYTES);
}

/* Aborts if the weights in the backing store are no longer where they were. */
void mct_state_read(uint32_t offset, uint32_t count, uint8_t *to) {
    if (backing != NULL && mct_state_verify(backing, MCT_SAVED_BYTES) != MCT_OK) {
        abort();
    }
    uint8_t saved[MCT_SAVED_BYTES];
    mct_state_save(saved);
    const uint32_t left = offset < MCT_SAVED_BYTES ? MCT_SAVED_BYTES - offset : 0;
    memcpy(to, saved + (left > 0 ? offset : 0), count < left ? count : left);
}

mct_status mct_state_verify(const uint8_t *saved, size_t saved_bytes) {
    const mct_status status = mct_state_check_header(MCT_MODEL_HASH, MCT_STATE_BYTES, saved);
    if (status != MCT_OK || saved_bytes != MCT_SAVED_BYTES) {
        return status != MCT_OK ? status : MCT_ERROR_SIZE;
    }
    return mct_state_check(saved, saved + MCT_STATE_HEADER_BYTES, MCT_STATE_BYTES);
}

mct_status mct_state_load(const uint8_t *saved, size_t saved_bytes) {
    const mct_status status = mct_state_verify(saved, saved_bytes);
    if (status == MCT_OK) {
        memcpy(state, saved + MCT_STATE_HEADER_BYTES, MCT_STATE_BYTES);
    }
    return status;
}
