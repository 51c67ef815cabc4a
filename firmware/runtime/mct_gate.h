/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of a training step: backward and updates run only for samples with a loss above a share of
 * what losses were lately. mcutrain/autodiff/gate.py is the same in Python, bit for bit. */
#ifndef MCT_GATE_H
#define MCT_GATE_H

#include "mct_fixedpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_GATE_MU_Q31 390451572 /* 2/11 */
#define MCT_GATE_MOST_LOSS_Q16 ((1 << 28) - 1)
#define MCT_GATE_MEAN_BITS 3

/* A part of the trained state. 0 at the beginning: then the first sample passes. */
typedef struct {
    int32_t mean_q19; /* moving average of all samples' losses */
    uint32_t skipped; /* samples that did not pass, modulo 2^32 */
} mct_gate;

/* A loss as it counts in a mean, Q19: those of 4096 and more count as that. So means fit int32, and so
 * does what they move by. */
static inline int32_t mct_gate_held(int32_t loss_q16) {
    return mct_min(loss_q16, MCT_GATE_MOST_LOSS_Q16) << MCT_GATE_MEAN_BITS;
}

/* A mean after one more loss. mean: 0 or more. */
static inline int32_t mct_gate_followed(int32_t mean_q19, int32_t held_q19) {
    return mean_q19 + mct_high_mul(held_q19 - mean_q19, MCT_GATE_MU_Q31);
}

/* 1 if loss > alpha * mean of the samples before, else 0; the sample counts in the mean either way. */
static inline int32_t mct_gate_passes(mct_gate *gate, int32_t alpha_q16, int32_t loss_q16) {
    const int32_t mean = mct_max(gate->mean_q19, 0);
    const int32_t loss = mct_gate_held(loss_q16);
    const int32_t passes = (int64_t)loss * 65536 > (int64_t)mean * alpha_q16;
    gate->mean_q19 = mct_gate_followed(mean, loss);
    gate->skipped += passes ? 0u : 1u;
    return passes;
}

#ifdef __cplusplus
}
#endif

#endif
