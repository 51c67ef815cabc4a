/* What harness.c takes of it. */
#ifndef MCT_TEST_STDIO_H
#define MCT_TEST_STDIO_H

#include <stddef.h>

typedef struct {
    long number;
} FILE;

extern FILE *const stderr;

FILE *fopen(const char *path, const char *mode);
size_t fread(void *to, size_t size, size_t count, FILE *file);
size_t fwrite(const void *from, size_t size, size_t count, FILE *file);
int fputs(const char *text, FILE *file);
int fclose(FILE *file);

#endif
