/* What the example uses of the Pico SDK's flash. */
#ifndef HARDWARE_FLASH_H
#define HARDWARE_FLASH_H

#include "../../stub.h"

#define PICO_FLASH_SIZE_BYTES ((uint32_t)STUB_FLASH_BYTES)
#define XIP_BASE stub_flash() /* an address on the chip */

static inline void flash_range_erase(uint32_t offset, size_t count) {
    stub_erase(offset, count);
}

static inline void flash_range_program(uint32_t offset, const uint8_t *from, size_t count) {
    stub_program(offset, from, count);
}

#endif
