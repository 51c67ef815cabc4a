/* SPDX-License-Identifier: Apache-2.0 */
/* The STM32F4's caches between core and flash: RM0090, "Adaptive real-time memory accelerator". */
#include "mct_stm32.h"

#include "mct_cache_body.h"
