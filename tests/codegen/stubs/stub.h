/* A board on the host, for the examples of packages: a button, a flash in a file, an end.
 *
 * Environment: ROUNDS, after how many pauses the program ends; PRESSED, set while the button is
 * held. The flash is flash.bin in the working directory; an erased byte is 0xff, and writing only
 * clears bits, as in a real one. */
#ifndef STUB_H
#define STUB_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STUB_FLASH_BYTES = 1 << 20
};

static uint8_t stub_bytes[STUB_FLASH_BYTES];
static int stub_is_read = 0;

static inline uint8_t *stub_flash(void) {
    if (!stub_is_read) {
        FILE *file = fopen("flash.bin", "rb");
        memset(stub_bytes, 0xff, sizeof stub_bytes);
        if (file != NULL) {
            (void)!fread(stub_bytes, 1, sizeof stub_bytes, file);
            fclose(file);
        }
        stub_is_read = 1;
    }
    return stub_bytes;
}

static inline void stub_store(void) {
    FILE *file = fopen("flash.bin", "wb");
    if (file == NULL || fwrite(stub_flash(), 1, STUB_FLASH_BYTES, file) != STUB_FLASH_BYTES) {
        abort();
    }
    fclose(file);
}

static inline void stub_erase(size_t offset, size_t count) {
    if (offset % 4096 != 0 || count % 4096 != 0 || offset + count > STUB_FLASH_BYTES) {
        abort(); /* only whole sectors can be erased */
    }
    memset(stub_flash() + offset, 0xff, count);
    stub_store();
}

static inline void stub_program(size_t offset, const void *bytes, size_t count) {
    const uint8_t *from = (const uint8_t *)bytes;
    if (offset % 256 != 0 || count % 256 != 0 || offset + count > STUB_FLASH_BYTES) {
        abort(); /* only whole pages can be written */
    }
    for (size_t i = 0; i < count; i++) {
        stub_flash()[offset + i] &= from[i];
    }
    stub_store();
}

static inline int stub_pressed(void) {
    return getenv("PRESSED") != NULL;
}

static inline void stub_pause(void) {
    static int rounds = 0;
    if (++rounds >= atoi(getenv("ROUNDS"))) {
        fflush(stdout);
        exit(0);
    }
}

#endif
