/* SPDX-License-Identifier: Apache-2.0 */
/* Packs a flash image as UF2, the format of the USB drives of RP2040 and RP2350:
 *
 *     bin2uf2 ADDRESS FAMILY firmware.bin firmware.uf2
 *
 * ADDRESS: of the image's first byte, 0x10000000 for flash; a multiple of 256. FAMILY: of chips, 0xE48BFF56
 * for the RP2040, 0xE48BFF59 for the RP2350's Arm cores. The format is
 * https://github.com/microsoft/uf2 : blocks of 512 bytes, each with 256 of the image. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 512
#define PAYLOAD_BYTES 256
#define HEADER_BYTES 32
#define FLAG_FAMILY 0x00002000u

static void put32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* One block; the last payload is filled up with zeros. */
static void make_block(uint8_t block[BLOCK_BYTES], uint32_t address, uint32_t number,
                       uint32_t blocks, uint32_t family) {
    put32(block + 0, 0x0A324655u);
    put32(block + 4, 0x9E5D5157u);
    put32(block + 8, FLAG_FAMILY);
    put32(block + 12, address + number * PAYLOAD_BYTES);
    put32(block + 16, PAYLOAD_BYTES);
    put32(block + 20, number);
    put32(block + 24, blocks);
    put32(block + 28, family);
    put32(block + BLOCK_BYTES - 4, 0x0AB16F30u);
}

static _Noreturn void fail(const char *path, const char *what) {
    fprintf(stderr, "bin2uf2: %s %s\n", path, what);
    exit(1);
}

static uint32_t parse(const char *text, uint32_t unit, const char *refusal) {
    char *end;
    const unsigned long number = strtoul(text, &end, 0);
    if (*text == '\0' || *end != '\0' || number > UINT32_MAX || number % unit != 0) {
        fail(text, refusal);
    }
    return (uint32_t)number;
}

static uint32_t count_blocks(FILE *image, const char *path) {
    if (fseek(image, 0, SEEK_END) != 0) {
        fail(path, "cannot be read");
    }
    const long bytes = ftell(image);
    if (bytes <= 0 || bytes > 0x10000000L) {
        fail(path, "is empty or larger than any flash");
    }
    rewind(image);
    return (uint32_t)((bytes + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fputs("usage: bin2uf2 ADDRESS FAMILY firmware.bin firmware.uf2\n", stderr);
        return 2;
    }
    const uint32_t address = parse(arguments[1], PAYLOAD_BYTES,
                                   "is no address: give a multiple of 256, such as 0x10000000");
    const uint32_t family =
        parse(arguments[2], 1, "is no family: give a number, such as 0xE48BFF56");
    const char *const from = arguments[3], *const to = arguments[4];
    FILE *image = fopen(from, "rb");
    if (image == NULL) {
        fail(from, "cannot be opened");
    }
    const uint32_t blocks = count_blocks(image, from);
    FILE *packed = fopen(to, "wb");
    if (packed == NULL) {
        fail(to, "cannot be written");
    }
    for (uint32_t number = 0; number < blocks; number++) {
        uint8_t block[BLOCK_BYTES] = {0};
        make_block(block, address, number, blocks, family);
        if (fread(block + HEADER_BYTES, 1, PAYLOAD_BYTES, image) == 0) {
            fail(from, "cannot be read");
        }
        if (fwrite(block, 1, BLOCK_BYTES, packed) != BLOCK_BYTES) {
            fail(to, "cannot be written");
        }
    }
    fclose(image);
    if (fclose(packed) != 0) {
        fail(to, "cannot be written");
    }
    return 0;
}
