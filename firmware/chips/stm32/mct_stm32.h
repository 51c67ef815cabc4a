/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32F4 and STM32F7, whose clocks, pins and flash controllers are alike: reference manuals
 * RM0090, RM0385, RM0390. */
#ifndef MCT_STM32_H
#define MCT_STM32_H

#include "mct_stm32_common.h"

#define MCT_RCC 0x40023800u
#define MCT_RCC_AHB1ENR (MCT_RCC + 0x30u)
#define MCT_RCC_APB1ENR (MCT_RCC + 0x40u)
#define MCT_RCC_APB2ENR (MCT_RCC + 0x44u)
#define MCT_FLASH 0x40023C00u
#define MCT_FLASH_ACR MCT_FLASH

/* Clocks of the peripheral buses that mct_clock.c sets. */
#define MCT_APB1_HZ (MCT_CLOCK_HZ / 4u)
#define MCT_APB2_HZ (MCT_CLOCK_HZ / 2u)

#endif
