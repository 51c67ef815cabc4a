/* A model that learns nothing, with the interface of a generated one: what tests link the protocol to. */
#ifndef MCT_MODEL_H
#define MCT_MODEL_H

#include "mct_schedule.h"
#include "mct_state.h"
#include "mct_types.h"

#define MCT_INPUT_BYTES 700
#define MCT_CLASSES 10
#define MCT_OUTPUT_BYTES 10
#define MCT_ARENA_BYTES 700
#define MCT_STATE_BYTES 600
#define MCT_BIASES 2
#define MCT_SAMPLES_PER_UPDATE 2u
#define MCT_MODEL_HASH UINT64_C(0x0123456789abcdef)
#define MCT_SAVED_BYTES (MCT_STATE_BYTES + MCT_STATE_HEADER_BYTES)

void mct_reset(uint32_t seed);
mct_status mct_feed(uint32_t offset, const int8_t *bytes, uint32_t count);
const int8_t *mct_infer(void);
mct_status mct_train(int32_t label, mct_learning_rate rate, mct_result *result);
void mct_state_save(uint8_t saved[MCT_SAVED_BYTES]);
mct_status mct_state_load(const uint8_t *saved, size_t saved_bytes);
mct_status mct_state_verify(const uint8_t *saved, size_t saved_bytes);
void mct_state_read(uint32_t offset, uint32_t count, uint8_t *to);
uint8_t *mct_state_bytes(void);
uint32_t mct_position(void);
uint32_t mct_saturations(void);

#ifdef MCT_LABEL_BYTES
#define MCT_IGNORED 255
uint8_t *mct_labels(void);
int32_t mct_labels_are_known(void);
#endif

#ifdef MCT_REMEMBER
#ifndef MCT_LATENT_BYTES
#define MCT_LATENT_BYTES 300
#endif
int8_t *mct_latent(void);
const int8_t *mct_front(void);
const int8_t *mct_infer_latent(const int8_t *latent);
mct_status mct_train_latent(const int8_t *latent, int32_t label, mct_learning_rate rate,
                            mct_result *result);
#endif

#ifdef MCT_IMPRINT_FEATURES
#define FAKE_MOST_COLLECTED 3u
void mct_imprint_begin(void);
mct_status mct_imprint_sample(void);
uint32_t mct_imprint_samples(void);
mct_status mct_imprint(int32_t label, int32_t known);
#endif

#ifdef MCT_BACKING_BYTES
mct_status mct_swap(const uint8_t saved[MCT_SAVED_BYTES]);
void mct_swap_begin(void);
int32_t mct_swap_is_due(void);
void mct_shelve(const uint8_t saved[MCT_SAVED_BYTES]);
#endif

#ifdef MCT_TIMED_NODES
const uint32_t *mct_fewest_ticks(void);
void mct_forget_times(void);
#endif

#ifdef MCT_FORWARD_TIME
#include "mct_selection.h"
void mct_select_all(void);
uint32_t mct_state_position(const uint8_t *saved);
mct_status mct_reselect(uint32_t share_q16, uint32_t every, const uint8_t before[MCT_SAVED_BYTES],
                        const uint8_t *between);
#endif

#endif
