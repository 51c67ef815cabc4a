/* Of FreeRTOS what firmware/examples calls, for the host. */
#ifndef STUB_TASK_H
#define STUB_TASK_H

#include "FreeRTOS.h"

extern int yields;

#define taskYIELD() ((void)yields++)

static inline void vTaskDelay(TickType_t ticks) {
    (void)ticks;
}

#endif
