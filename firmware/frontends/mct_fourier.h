/* SPDX-License-Identifier: Apache-2.0 */
/* A Fourier transform in 32-bit integers, and the roots and logarithms of what it gives.
 *
 * mcutrain/frontends/fourier.py computes the same. Nothing is divided on the way: the sum of the
 * sizes of all points must be below 2^30, which bounds every sum of some of them, however turned.
 * Integers only, no recursion, no memory of its own. */
#ifndef MCT_FOURIER_H
#define MCT_FOURIER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t re, im;
} mct_complex;

/* Transform `count` real points in place: 32, 128 or 512. Two neighbours count as one complex
 * point; mct_fourier_magnitude reads what is left there. */
void mct_fourier(int32_t *points, uint32_t count);

/* The size of bin k, in 1 ... count / 2 - 1, of the same points. Below 2^30. */
uint32_t mct_fourier_magnitude(const int32_t *points, uint32_t count, uint32_t k);

/* 32767 cos(2 pi turn / 512), turn in 0 ... 511. */
int32_t mct_cosine(uint32_t turn);

/* The square root to the nearest. */
uint32_t mct_root(uint32_t x);

/* The binary logarithm with 16 fraction bits; x in 1 ... 2^62 - 1. */
int32_t mct_log2(uint64_t x);

#ifdef __cplusplus
}
#endif

#endif
