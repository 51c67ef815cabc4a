/* SPDX-License-Identifier: Apache-2.0 */
/* Many samples per call, for the simulation on a host. Not part of a firmware. */
#include "mct_host.h"

#include <string.h>
#ifdef MCT_TIMED_NODES
#include <time.h>

/* Nanoseconds. */
uint32_t mct_ticks(void) {
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (uint32_t)now.tv_sec * 1000000000u + (uint32_t)now.tv_nsec;
}
#endif

/* Puts labels of positions where the network reads them. Returns what mct_train takes. */
static int32_t mct_host_labelled(const mct_host_label *labels, int32_t n) {
#ifdef MCT_LABEL_BYTES
    memcpy(mct_labels(), labels + (size_t)n * MCT_LABEL_BYTES, MCT_LABEL_BYTES);
    return 0;
#else
    return labels[n];
#endif
}

int32_t mct_host_train(int32_t samples, const int8_t *x, const mct_host_label *labels,
                       const mct_learning_rate *rates, mct_result *results) {
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        const mct_status status = mct_train(mct_host_labelled(labels, n), rates[n], &results[n]);
        if (status != MCT_OK) {
            return (int32_t)status;
        }
    }
    return MCT_OK;
}

void mct_host_infer(int32_t samples, const int8_t *x, int8_t *y) {
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        memcpy(y + (size_t)n * MCT_OUTPUT_BYTES, mct_infer(), MCT_OUTPUT_BYTES);
    }
}

#ifdef MCT_ROWS_BYTES

void mct_host_steps(int32_t steps, const int8_t *x, int8_t *y) {
    for (int32_t n = 0; n < steps; n++) {
        memcpy(y + (size_t)n * MCT_OUTPUT_BYTES, mct_infer_rows(x + (size_t)n * MCT_ROWS_BYTES),
               MCT_OUTPUT_BYTES);
    }
}

#endif

#ifdef MCT_IMPRINT_FEATURES

int32_t mct_host_imprint(int32_t samples, const int8_t *x, int32_t label, int32_t known) {
    mct_imprint_begin();
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        const mct_status status = mct_imprint_sample();
        if (status != MCT_OK) {
            return (int32_t)status;
        }
    }
    return (int32_t)mct_imprint(label, known);
}

#ifdef MCT_LATENT_BYTES

int32_t mct_host_imprint_latents(int32_t samples, const int8_t *latents, int32_t label,
                                 int32_t known) {
    mct_imprint_begin();
    for (int32_t n = 0; n < samples; n++) {
        const mct_status status = mct_imprint_latent(latents + (size_t)n * MCT_LATENT_BYTES);
        if (status != MCT_OK) {
            return (int32_t)status;
        }
    }
    return (int32_t)mct_imprint(label, known);
}

#endif

#endif

#ifdef MCT_LEVELS

void mct_host_levels(int32_t samples, const int8_t *x, int32_t *levels) {
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        (void)mct_front();
        levels[n] = (int32_t)mct_level();
    }
}

int32_t mct_host_replay(int32_t samples, const int8_t *x, const mct_host_label *labels,
                        const mct_learning_rate *rates, mct_result *results) {
    static int8_t latent[MCT_LATENT_BYTES];
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        memcpy(latent, mct_front(), MCT_LATENT_BYTES);
        const mct_status status =
            mct_train_latent(latent, mct_host_labelled(labels, n), rates[n], &results[n]);
        if (status != MCT_OK) {
            return (int32_t)status;
        }
    }
    return MCT_OK;
}

#endif

#ifdef MCT_LATENT_BYTES

void mct_host_front(int32_t samples, const int8_t *x, int8_t *latents) {
    for (int32_t n = 0; n < samples; n++) {
        (void)mct_feed(0, x + (size_t)n * MCT_INPUT_BYTES, MCT_INPUT_BYTES);
        memcpy(latents + (size_t)n * MCT_LATENT_BYTES, mct_front(), MCT_LATENT_BYTES);
    }
}

int32_t mct_host_train_latents(int32_t samples, const int8_t *latents, const mct_host_label *labels,
                               const mct_learning_rate *rates, mct_result *results) {
    for (int32_t n = 0; n < samples; n++) {
        const int8_t *latent = latents + (size_t)n * MCT_LATENT_BYTES;
        const mct_status status =
            mct_train_latent(latent, mct_host_labelled(labels, n), rates[n], &results[n]);
        if (status != MCT_OK) {
            return (int32_t)status;
        }
    }
    return MCT_OK;
}

void mct_host_infer_latents(int32_t samples, const int8_t *latents, int8_t *y) {
    for (int32_t n = 0; n < samples; n++) {
        const int8_t *found = mct_infer_latent(latents + (size_t)n * MCT_LATENT_BYTES);
        memcpy(y + (size_t)n * MCT_OUTPUT_BYTES, found, MCT_OUTPUT_BYTES);
    }
}

#endif
