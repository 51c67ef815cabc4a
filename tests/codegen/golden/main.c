/* SPDX-License-Identifier: Apache-2.0 */
/* A program to start from: it trains tiny (last:1), keeps what was learnt, and infers.
 *
 * Two functions are yours: where samples come from, and what outlives a restart. As they stand here
 * they make the program run anywhere; it returns 0 if all went well. C and C++. */
#include <stdint.h>
#include <string.h>

#include "mct_model.h"

#define STEPS 40u

/* Gives the next sample, returns its class. Here: a pattern per class. Sensors and cameras:
 * mct_quantize_input(real). */
static int32_t read_sample(uint32_t number)
{
    enum { ROW_BYTES = MCT_INPUT_BYTES / MCT_INPUT_HEIGHT };
    const int32_t label = (int32_t)(number % MCT_CLASSES);
    int8_t row[ROW_BYTES];
    for (int32_t i = 0; i < MCT_INPUT_BYTES; i += ROW_BYTES) {
        for (int32_t j = 0; j < ROW_BYTES; j++) {
            row[j] = (int8_t)(((i + j) * (label + 3)) % 17 * 12 - 100);
        }
        (void)mct_feed((uint32_t)i, row, ROW_BYTES);
    }
    return label;
}

/* Flash of the chip, or a file. */
static uint8_t saved[MCT_SAVED_BYTES];

int main(void)
{
    const mct_learning_rate base = MCT_RATE(0.03); /* or what `mcutrain simulate` found */
    mct_result result = {0, 0};

    mct_reset(1);
    /* goes on with what was saved; at a first start nothing was, and the model stays as it came */
    (void)mct_state_load(saved, sizeof saved);
    for (uint32_t step = mct_position(); step < STEPS; step++) {
        const mct_learning_rate rate = mct_schedule_cosine(base, step, STEPS / 10u, STEPS);
        const int32_t label = read_sample(step);
        if (mct_train(label, rate, &result) != MCT_OK) {
            return 2;
        }
    }
    mct_state_save(saved);

    (void)read_sample(0);
    const int8_t *y = mct_infer();
    int32_t best = 0;
    for (int32_t i = 1; i < MCT_CLASSES; i++) {
        best = y[i] > y[best] ? i : best;
    }
    if (best < 0 || result.loss_q16 < 0 || mct_position() != STEPS) {
        return 4;
    }
    return mct_state_load(saved, sizeof saved) == MCT_OK ? 0 : 5;
}
