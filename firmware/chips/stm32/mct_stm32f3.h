/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32F3: reference manual RM0316. */
#ifndef MCT_STM32F3_H
#define MCT_STM32F3_H

#include "mct_stm32_common.h"

#define MCT_RCC 0x40021000u
#define MCT_RCC_AHBENR (MCT_RCC + 0x14u)
#define MCT_RCC_APB2ENR (MCT_RCC + 0x18u)
#define MCT_RCC_APB1ENR (MCT_RCC + 0x1Cu)
#define MCT_FLASH 0x40022000u
#define MCT_FLASH_ACR MCT_FLASH

/* Clocks of the peripheral buses that mct_clock_f3.c sets. */
#define MCT_APB1_HZ (MCT_CLOCK_HZ / 2u)
#define MCT_APB2_HZ MCT_CLOCK_HZ

#endif
