/* SPDX-License-Identifier: Apache-2.0 */
/* A task of FreeRTOS that learns in the background, and keeps what it learnt in a file of littlefs, as
 * in external flash. For a library of `mcutrain generate --budgeted`.
 *
 * One task calls the model: no function of it may run in two tasks at once. The task returns to the
 * scheduler about every 200,000 estimated instructions, in the middle of a step, so tasks of the same
 * priority run meanwhile. Yours: `next_sample`, which waits for a sample, and a mounted `file_system`. */
#include <stdbool.h>
#include <stdint.h>

#include "FreeRTOS.h"
#include "lfs.h"
#include "mct_model.h"
#include "task.h"

#define BUDGET 200000u
#define STEPS_A_SAVE 20u
#define KEPT "learnt"
#define FRESH "learnt.new"

extern lfs_t file_system;

/* Feeds a sample; returns its label. */
int32_t next_sample(void);

void learn_task(void *unused);

/* Takes up what the file has; false if there is none, or none of this model. */
static bool recall(void) {
    lfs_file_t file;
    bool is_taken = false;
    if (lfs_file_open(&file_system, &file, KEPT, LFS_O_RDONLY) != 0) {
        return false;
    }
    uint8_t *saved = pvPortMalloc(MCT_SAVED_BYTES); /* until the state has it */
    if (saved != NULL) {
        const lfs_ssize_t count = lfs_file_read(&file_system, &file, saved, MCT_SAVED_BYTES);
        is_taken = count > 0 && mct_state_load(saved, (size_t)count) == MCT_OK;
        vPortFree(saved);
    }
    (void)lfs_file_close(&file_system, &file);
    return is_taken;
}

/* Writes a new file, and gives it the old one's name when it is whole: a power cut leaves one of both. */
static bool keep(void) {
    lfs_file_t file;
    uint8_t piece[256];
    if (lfs_file_open(&file_system, &file, FRESH, LFS_O_WRONLY | LFS_O_CREAT | LFS_O_TRUNC) != 0) {
        return false;
    }
    bool is_written = true;
    for (uint32_t i = 0; i < MCT_SAVED_BYTES && is_written; i += sizeof piece) {
        const uint32_t left = MCT_SAVED_BYTES - i;
        const uint32_t count = left < sizeof piece ? left : (uint32_t)sizeof piece;
        is_written = mct_state_read(i, count, piece) == MCT_OK &&
                     lfs_file_write(&file_system, &file, piece, count) == (lfs_ssize_t)count;
    }
    const bool is_closed = lfs_file_close(&file_system, &file) == 0;
    return is_written && is_closed && lfs_rename(&file_system, FRESH, KEPT) == 0;
}

void learn_task(void *unused) {
    (void)unused;
    mct_reset(1);
    (void)recall();
    for (;;) {
        mct_result result;
        const int32_t label = next_sample();
        mct_status status = mct_train_begin(label, MCT_RATE(0.03));
        if (status != MCT_OK) {
            continue; /* a wrong label, or a sample that is not complete */
        }
        do {
            status = mct_train_some(BUDGET, &result);
            taskYIELD();
        } while (status == MCT_UNFINISHED);
        if (mct_position() % STEPS_A_SAVE == 0 && !keep()) {
            vTaskDelay(1); /* the flash is full or worn: go on without it */
        }
    }
}
