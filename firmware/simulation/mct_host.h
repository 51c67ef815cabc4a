/* SPDX-License-Identifier: Apache-2.0 */
/* What the host simulation calls in the shared library of a generated project. */
#ifndef MCT_HOST_H
#define MCT_HOST_H

#include "mct_model.h"

/* Of a sample; of one with a label for each position there are MCT_LABEL_BYTES. */
#ifdef MCT_LABEL_BYTES
typedef uint8_t mct_host_label;
#else
typedef int32_t mct_host_label;
#endif

/* Trains on `samples` samples in order; stops at the first error and returns its mct_status.
 * x: [samples][MCT_INPUT_BYTES]   labels, rates, results: [samples] */
int32_t mct_host_train(int32_t samples, const int8_t *x, const mct_host_label *labels,
                       const mct_learning_rate *rates, mct_result *results);

/* x: [samples][MCT_INPUT_BYTES]   y: [samples][MCT_OUTPUT_BYTES] */
void mct_host_infer(int32_t samples, const int8_t *x, int8_t *y);

#ifdef MCT_ROWS_BYTES
/* The output of each step of a streaming network.
 * x: [steps][MCT_ROWS_BYTES]   y: [steps][MCT_OUTPUT_BYTES] */
void mct_host_steps(int32_t steps, const int8_t *x, int8_t *y);
#endif

#ifdef MCT_IMPRINT_FEATURES
/* Gives the class `label` its weights from samples of it; returns the mct_status.
 * x: [samples][MCT_INPUT_BYTES] */
int32_t mct_host_imprint(int32_t samples, const int8_t *x, int32_t label, int32_t known);
#ifdef MCT_LATENT_BYTES
int32_t mct_host_imprint_latents(int32_t samples, const int8_t *latents, int32_t label,
                                 int32_t known);
#endif
#endif

#ifdef MCT_LEVELS
/* The front that a step would take for each sample. x: [samples][MCT_INPUT_BYTES]   levels: [samples] */
void mct_host_levels(int32_t samples, const int8_t *x, int32_t *levels);

/* As mct_host_train, of samples whose latents were remembered: they count for no level. */
int32_t mct_host_replay(int32_t samples, const int8_t *x, const mct_host_label *labels,
                        const mct_learning_rate *rates, mct_result *results);
#endif

#ifdef MCT_LATENT_BYTES
/* mct_host_train in two parts. latents: [samples][MCT_LATENT_BYTES] */
void mct_host_front(int32_t samples, const int8_t *x, int8_t *latents);
int32_t mct_host_train_latents(int32_t samples, const int8_t *latents, const mct_host_label *labels,
                               const mct_learning_rate *rates, mct_result *results);
void mct_host_infer_latents(int32_t samples, const int8_t *latents, int8_t *y);
#endif

#endif
