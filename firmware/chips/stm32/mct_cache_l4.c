/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32L4's caches between core and flash: RM0351, "Adaptive real-time memory accelerator". */
#include "mct_stm32l4.h"

#include "mct_cache_body.h"
