/* What the example uses of FreeRTOS. */
#ifndef FREERTOS_H
#define FREERTOS_H

#include "../../stub.h"

#define pdMS_TO_TICKS(milliseconds) ((uint32_t)(milliseconds))

#endif
