/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#undef strlen

typedef uint32_t __attribute__((may_alias)) word;
typedef struct {
    uint32_t words[4]; /* which one instruction loads, and one stores */
} __attribute__((may_alias)) quad;

/* Keeps the compiler from turning a loop into a call of the very function that it is in. */
static inline void keep_loop(void) {
    __asm__ volatile("");
}

static inline uintptr_t misalignment(const void *address) {
    return (uintptr_t)address % sizeof(word);
}

static inline void copy_quad(uint8_t *to, const uint8_t *from) {
    *(quad *)(void *)to = *(const quad *)(const void *)from;
}

/* From the first byte to the last: right for to <= from, whatever overlaps. */
static inline void copy_up(uint8_t *to, const uint8_t *from, size_t count) {
    if (misalignment(to) == misalignment(from)) {
        for (; count > 0 && misalignment(to) != 0; count--) {
            *to++ = *from++;
            keep_loop();
        }
        for (; count >= 2 * sizeof(quad); count -= 2 * sizeof(quad)) {
            copy_quad(to, from);
            copy_quad(to + sizeof(quad), from + sizeof(quad));
            to += 2 * sizeof(quad);
            from += 2 * sizeof(quad);
            keep_loop();
        }
        for (; count >= sizeof(word); count -= sizeof(word)) {
            *(word *)(void *)to = *(const word *)(const void *)from;
            to += sizeof(word);
            from += sizeof(word);
            keep_loop();
        }
    }
    for (; count > 0; count--) {
        *to++ = *from++;
        keep_loop();
    }
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    copy_up(to, from, count);
    return to;
}

void *memmove(void *to, const void *from, size_t count) {
    uint8_t *bytes = to;
    if ((uintptr_t)to <= (uintptr_t)from) {
        copy_up(bytes, from, count);
        return to;
    }
    while (count > 0) {
        count--;
        bytes[count] = ((const uint8_t *)from)[count];
        keep_loop();
    }
    return to;
}

void *memset(void *to, int value, size_t count) {
    uint8_t *bytes = to;
    const word filled = (uint8_t)value * 0x01010101u;
    for (; count > 0 && misalignment(bytes) != 0; count--) {
        *bytes++ = (uint8_t)value;
        keep_loop();
    }
    for (; count >= sizeof(word); count -= sizeof(word)) {
        *(word *)(void *)bytes = filled;
        bytes += sizeof(word);
        keep_loop();
    }
    for (; count > 0; count--) {
        *bytes++ = (uint8_t)value;
        keep_loop();
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t count) {
    const uint8_t *x = a;
    const uint8_t *y = b;
    for (; count > 0; count--, x++, y++) {
        if (*x != *y) {
            return *x - *y;
        }
        keep_loop();
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t count = 0;
    while (text[count] != '\0') {
        count++;
        keep_loop();
    }
    return count;
}
