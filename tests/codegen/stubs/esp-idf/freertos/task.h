/* What the example uses of FreeRTOS' tasks. */
#ifndef FREERTOS_TASK_H
#define FREERTOS_TASK_H

#include "../../stub.h"

static inline void vTaskDelay(uint32_t ticks) {
    (void)ticks;
    stub_pause();
}

#endif
