/* What the bodies for Helium (MVE, of Cortex-M55 and M85) take from it: Arm's intrinsics, by their own
 * names, and a few loops in assembly. With MCT_HELIUM_EMULATED, or without the extension, the same names
 * are plain C: slow, same bits. */
#ifndef MCT_HELIUM_H
#define MCT_HELIUM_H

#include <stdint.h>
#include <string.h>

/* Four rows of weights and what their sums start from, in the order of the registers that one
 * instruction loads them into. */
typedef struct {
    const int8_t *w0;
    int32_t sum0;
    const int8_t *w1;
    int32_t sum1;
    int32_t sum2;
    const int8_t *w2;
    int32_t sum3;
    const int8_t *w3;
} mct_helium_rows;

#if defined(__ARM_FEATURE_MVE) && !defined(MCT_HELIUM_EMULATED)
#include "mct_helium_arm.h"
#else
#include "mct_helium_emulated.h"
#endif

#endif
