/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32L475 and L476: reference manual RM0351. */
#ifndef MCT_STM32L4_H
#define MCT_STM32L4_H

#include "mct_stm32_common.h"

#define MCT_RCC 0x40021000u
#define MCT_RCC_AHB2ENR (MCT_RCC + 0x4Cu)
#define MCT_RCC_APB1ENR1 (MCT_RCC + 0x58u)
#define MCT_RCC_APB2ENR (MCT_RCC + 0x60u)
#define MCT_FLASH 0x40022000u
#define MCT_FLASH_ACR MCT_FLASH

/* Clocks of the peripheral buses that mct_clock_l4.c sets. */
#define MCT_APB1_HZ MCT_CLOCK_HZ
#define MCT_APB2_HZ MCT_CLOCK_HZ

#endif
