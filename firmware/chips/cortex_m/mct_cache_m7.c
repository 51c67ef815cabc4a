/* SPDX-License-Identifier: Apache-2.0 */
/* The Cortex-M7's caches: DDI 0489, "Memory system", and DDI 0403, B2.2. */
#include "mct_chip.h"

#define CCR 0xE000ED14u
#define CCSIDR 0xE000ED80u
#define CSSELR 0xE000ED84u
#define ICIALLU 0xE000EF50u
#define DCIMVAC 0xE000EF5Cu
#define DCISW 0xE000EF60u

#define LINE_BYTES 32u
#define WAYS 4u /* of every Cortex-M7's data cache */

/* Both caches hold anything after a reset and must be emptied first. */
void mct_cache_start(void) {
    MCT_REGISTER(CSSELR) = 0; /* CCSIDR is about the data cache */
    mct_synchronize();
    const uint32_t sets = ((MCT_REGISTER(CCSIDR) >> 13) & 0x7FFFu) + 1;
    for (uint32_t set = 0; set < sets; set++) {
        for (uint32_t way = 0; way < WAYS; way++) {
            MCT_REGISTER(DCISW) = way << 30 | set * LINE_BYTES;
        }
    }
    MCT_REGISTER(ICIALLU) = 0;
    mct_synchronize();
    MCT_REGISTER(CCR) |= 1u << 17 | 1u << 16; /* IC, DC */
    mct_synchronize();
}

void mct_cache_forget(uint32_t address, uint32_t bytes) {
    mct_synchronize();
    for (uint32_t offset = 0; offset < bytes; offset += LINE_BYTES) {
        MCT_REGISTER(DCIMVAC) = address + offset;
    }
    mct_synchronize();
}
