/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32H743 and H753: reference manual RM0433. */
#ifndef MCT_STM32H7_H
#define MCT_STM32H7_H

#include "mct_stm32_common.h"

#define MCT_RCC 0x58024400u
#define MCT_RCC_AHB4ENR (MCT_RCC + 0xE0u)
#define MCT_RCC_APB1LENR (MCT_RCC + 0xE8u)
#define MCT_RCC_APB2ENR (MCT_RCC + 0xF0u)
#define MCT_FLASH 0x52002000u
#define MCT_FLASH_ACR MCT_FLASH

/* Clocks of the peripheral buses that mct_clock_h7.c sets. */
#define MCT_APB1_HZ (MCT_CLOCK_HZ / 4u)
#define MCT_APB2_HZ (MCT_CLOCK_HZ / 4u)

#endif
