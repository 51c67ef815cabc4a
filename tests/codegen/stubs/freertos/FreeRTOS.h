/* Of FreeRTOS what firmware/examples calls, for the host. */
#ifndef STUB_FREERTOS_H
#define STUB_FREERTOS_H

#include <stdint.h>
#include <stdlib.h>

typedef uint32_t TickType_t;

#define pvPortMalloc malloc
#define vPortFree free

#endif
