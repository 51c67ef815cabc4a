/* What harness.c takes of it. */
#ifndef MCT_TEST_STDLIB_H
#define MCT_TEST_STDLIB_H

#include <stddef.h>

void *malloc(size_t bytes);
void free(void *block);
_Noreturn void exit(int code);

#endif
