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
 * inferences in a row. Then none is told for `pause` inferences. So there is at most one in agree +
 * pause inferences, or in 1 + pause if agree is 0. least: the lowest score that is told; -128: any.
 * quiet: a class that is never told, such as noise; -1: none. */
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

/* A button, by a clock that counts up and wraps. A level counts when it has stayed for `settle` ticks: what is
 * shorter is a bounce. */
typedef struct {
    uint32_t settle, hold;
} mct_button_params;

/* changed: when the level last changed, down: when the button went down. level: as it was at the last look;
 * is_down: as it counts; is_held: MCT_BUTTON_HELD was told. */
typedef struct {
    uint32_t changed, down;
    bool level, is_down, is_held;
} mct_button;

typedef enum {
    MCT_BUTTON_NOTHING = 0,
    MCT_BUTTON_CLICKED = 1, /* it is up again, before `hold` ticks */
    MCT_BUTTON_HELD = 2,    /* it is down for `hold` ticks; said once */
} mct_button_event;

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

/* Looks at a button, which is up where all of *button is 0: often, or what is shorter is overlooked. */
mct_button_event mct_button_look(mct_button *button, const mct_button_params *params, bool is_down,
                                 uint32_t now);

#ifdef __cplusplus
}
#endif

#endif
