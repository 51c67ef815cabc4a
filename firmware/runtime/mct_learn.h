/* SPDX-License-Identifier: Apache-2.0 */
/* What a program that listens decides: whether an answer is told, and what a window is for. No model,
 * no board: mcutrain/simulation/field.py is the same. */
#ifndef MCT_LEARN_H
#define MCT_LEARN_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An answer is told if its score is `margin` steps of the output above every other one, in `agree`
 * inferences in a row; behind it none is told for `pause` inferences. So there is at most one in
 * agree + pause inferences, or in 1 + pause if agree is 0. least: the lowest score that is told; -128:
 * any. quiet: a class that is never told, such as noise; -1: none. */
typedef struct {
    int32_t margin, least;
    uint32_t agree, pause;
    int32_t quiet;
} mct_learn_params;

/* last: the class of `run` inferences in a row, -1: none. wait: inferences in which nothing is told.
 * label, known: of a new class, whose samples are awaited, `left` of them. */
typedef struct {
    int32_t last;
    uint32_t run, wait;
    int32_t label, known;
    uint32_t left;
} mct_learn;

/* What the next window that stands out is for. */
typedef enum {
    MCT_LEARN_NOTHING = 0,
    MCT_LEARN_COLLECT = 1, /* one of the samples of a new class */
    MCT_LEARN_IMPRINT = 2, /* the last one: the class gets its weights */
} mct_learn_action;

/* Nothing was heard, and nothing is awaited. */
void mct_learn_start(mct_learn *learn);

/* Takes the scores of an inference. Returns the class that is told, or -1. */
int32_t mct_learn_hear(mct_learn *learn, const mct_learn_params *params, const int8_t *scores,
                       int32_t classes);

/* The next `samples` windows are of a class beside 0 … known - 1. Samples that were awaited before are
 * not any more. false, and nothing changes, for no sample, no such class, or no other that is known. */
bool mct_learn_gather(mct_learn *learn, int32_t label, int32_t known, uint32_t samples,
                      int32_t classes);

/* Takes note of a window that stands out. */
mct_learn_action mct_learn_sample(mct_learn *learn);

#ifdef __cplusplus
}
#endif

#endif
