/* SPDX-License-Identifier: Apache-2.0 */
/* What the firmware uses of string.h, the first four of which a C compiler needs itself: mct_libc.c. This
 * header stands in for a libc's, so that the firmware is the same with any compiler and with none of
 * its libraries. */
#ifndef MCT_STRING_H
#define MCT_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int memcmp(const void *a, const void *b, size_t count);
size_t strlen(const char *text);

/* -ffreestanding hides from the compiler that these are the standard's functions; it should know,
 * and load a word where four bytes are copied. */
#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset
#define memcmp __builtin_memcmp
#define strlen __builtin_strlen

#endif
