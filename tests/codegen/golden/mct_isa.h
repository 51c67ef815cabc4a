/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the kernels' bodies are compiled. All compute the same bits; some are many times faster.
 *
 *     helium    Helium (MVE), on Cortex-M55, M85; 3584 bytes of stack
 *     dsp       SMLAD and its kin, on Cortex-M4, M7, M33, M35P, M55, M85; 3584 bytes of stack
 *     armv6m    a product of 32 bits and no longer one, on Cortex-M0, M0+, M1, M23; 8448 bytes of stack
 *     portable  C for any processor; 2304 bytes of stack
 *
 * The compiler's macros choose: compile for your processor, for instance with -mcpu=cortex-m7. To
 * choose yourself define MCT_ISA, for the compiler or in a file mct_config.h of yours:
 *
 *     -DMCT_ISA=MCT_ISA_PORTABLE
 *
 * MCT_ISA_NAME is the name of what was taken, as a string. */
#ifndef MCT_ISA_H
#define MCT_ISA_H

#ifdef __has_include
#if __has_include("mct_config.h")
#include "mct_config.h"
#endif
#endif

#define MCT_ISA_HELIUM 1
#define MCT_ISA_DSP 2
#define MCT_ISA_ARMV6M 3
#define MCT_ISA_PORTABLE 5

#if defined(__GNUC__) && \
    defined(__ARM_FEATURE_MVE) && \
    (__ARM_FEATURE_MVE & 1) && \
    defined(__ARM_FEATURE_DSP) && \
    defined(__ARM_FEATURE_UNALIGNED) && \
    !defined(__ARM_BIG_ENDIAN)
#define MCT_HAS_HELIUM 1
#else
#define MCT_HAS_HELIUM 0
#endif

#if defined(__GNUC__) && \
    defined(__ARM_FEATURE_DSP) && \
    defined(__ARM_FEATURE_SIMD32) && \
    defined(__ARM_FEATURE_UNALIGNED) && \
    !defined(__ARM_ARCH_ISA_ARM) && \
    !defined(__ARM_BIG_ENDIAN)
#define MCT_HAS_DSP 1
#else
#define MCT_HAS_DSP 0
#endif

#if defined(__GNUC__) && \
    defined(__ARM_ARCH_ISA_THUMB) && \
    __ARM_ARCH_ISA_THUMB == 1 && \
    !defined(__ARM_ARCH_ISA_ARM) && \
    !defined(__ARM_BIG_ENDIAN)
#define MCT_HAS_ARMV6M 1
#else
#define MCT_HAS_ARMV6M 0
#endif

#ifndef MCT_ISA
#if MCT_HAS_HELIUM
#define MCT_ISA MCT_ISA_HELIUM
#elif MCT_HAS_DSP
#define MCT_ISA MCT_ISA_DSP
#elif MCT_HAS_ARMV6M
#define MCT_ISA MCT_ISA_ARMV6M
#else
#define MCT_ISA MCT_ISA_PORTABLE
#endif
#endif

#if MCT_ISA == MCT_ISA_HELIUM
#define MCT_ISA_NAME "helium"
#if !MCT_HAS_HELIUM && !defined(MCT_HELIUM_EMULATED)
#error "This compiler cannot use helium: compile for a little-endian Cortex-M with Helium, as -mcpu=cortex-m55 -mfloat-abi=hard does, or leave out MCT_ISA"
#endif
#elif MCT_ISA == MCT_ISA_DSP
#define MCT_ISA_NAME "dsp"
#if !MCT_HAS_DSP && !defined(MCT_DSP_EMULATED)
#error "This compiler cannot use dsp: compile for a little-endian Cortex-M with the DSP extension, as -mcpu=cortex-m7 does, or leave out MCT_ISA"
#endif
#elif MCT_ISA == MCT_ISA_ARMV6M
#define MCT_ISA_NAME "armv6m"
#if !MCT_HAS_ARMV6M && !defined(MCT_ARMV6M_EMULATED)
#error "This compiler cannot use armv6m: compile for a little-endian Armv6-M or Armv8-M baseline, as -mcpu=cortex-m0plus does, or leave out MCT_ISA"
#endif
#elif MCT_ISA == MCT_ISA_PORTABLE
#define MCT_ISA_NAME "portable"
#else
#error "MCT_ISA is none that this library has: MCT_ISA_HELIUM, MCT_ISA_DSP, MCT_ISA_ARMV6M, MCT_ISA_PORTABLE"
#endif

/* So that a file of which nothing is compiled declares something, as C demands. */
typedef int mct_isa_number;

#endif
