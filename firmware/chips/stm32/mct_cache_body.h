/* SPDX-License-Identifier: Apache-2.0 */
/* The caches between core and flash of the STM32F4 and L4. Whoever includes it has defined
 * MCT_FLASH_ACR. */
#define PREFETCH (1u << 8)
#define INSTRUCTIONS (1u << 9)
#define DATA (1u << 10)
#define DATA_RESET (1u << 12)

void mct_cache_start(void) {
    MCT_REGISTER(MCT_FLASH_ACR) |= PREFETCH | INSTRUCTIONS | DATA;
}

/* Forgets all data: the cache has no finer way, and may be reset only while it is off. */
void mct_cache_forget(uint32_t address, uint32_t bytes) {
    (void)address;
    (void)bytes;
    MCT_REGISTER(MCT_FLASH_ACR) &= ~DATA;
    MCT_REGISTER(MCT_FLASH_ACR) |= DATA_RESET;
    MCT_REGISTER(MCT_FLASH_ACR) &= ~DATA_RESET;
    MCT_REGISTER(MCT_FLASH_ACR) |= DATA;
}
