/* SPDX-License-Identifier: Apache-2.0 */
/* Work shared by threads. What a part computes depends on nothing that another writes, and sums are
 * exact, so the bits are the same for any number of threads. */
#ifndef MCT_THREADS_H
#define MCT_THREADS_H

#include <stdint.h>

/* No function of the host bodies needs more stack than this, on any instruction set; tests compile
 * with it as a limit. */
#define MCT_MOST_FRAME_BYTES (320 * 1024)

/* Computes part `part` of `parts`. */
typedef void mct_part(const void *job, int32_t part, int32_t parts);

/* At most so many threads, 1 to 64, from now on; those that are too many end. Unless it is called:
 * what the environment's MCT_THREADS says, or one for each processor. */
void mct_threads_set(int32_t threads);

/* Into how many parts work of so many products is worth splitting; what computes an element alone
 * takes as long as MCT_PRODUCTS_OF_AN_ELEMENT. */
#define MCT_PRODUCTS_OF_AN_ELEMENT 32
int32_t mct_threads_for(int64_t products);

/* All parts, this thread among those that compute; returns when all are done. Not to be called by two
 * threads at once. */
void mct_threads_run(mct_part *run, const void *job, int32_t parts);

/* Where part `part` of `count` begins: at a multiple of `unit`, or at the end. */
static inline int32_t mct_part_begin(int32_t count, int32_t part, int32_t parts, int32_t unit) {
    const int64_t begin = (int64_t)((count + unit - 1) / unit) * part / parts * unit;
    return begin < count ? (int32_t)begin : count;
}

#endif
