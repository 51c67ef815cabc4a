/* SPDX-License-Identifier: Apache-2.0 */
/* Raw samples on their way from an interrupt to the program, and features as a model's input has
 * them.
 *
 * One side writes, one reads, neither waits: an interrupt, a DMA's half or another core may push
 * while the program takes. What finds no room is left out and counted. */
#ifndef MCT_SAMPLES_H
#define MCT_SAMPLES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    volatile uint32_t written; /* samples so far, modulo 2^32; only the writer changes it */
    volatile uint32_t taken;   /* the same of the reader */
    volatile uint32_t lost;    /* samples that found no room; only the writer changes it */
} mct_samples;

/* Copy samples of `width` numbers into `room`, of `size` samples, a power of two. Those that find no
 * room are lost. */
void mct_samples_push(mct_samples *queue, int16_t *room, uint32_t size, uint32_t width,
                      const int16_t *samples, uint32_t count);

/* How many samples wait in one piece; *first is where they lie. 0 if none do. */
uint32_t mct_samples_waiting(const mct_samples *queue, const int16_t *room, uint32_t size,
                             uint32_t width, const int16_t **first);

/* The reader has no more use for the first `count` samples that wait. */
void mct_samples_take(mct_samples *queue, uint32_t count);

/* Leave out all that wait. For the reader. */
void mct_samples_skip(mct_samples *queue);

/* The code of a feature: `first`, and one more for each of the ascending `steps` that it reaches. */
int8_t mct_code_of(int32_t feature, const int16_t *steps, uint32_t count, int32_t first);

#ifdef __cplusplus
}
#endif

#endif
