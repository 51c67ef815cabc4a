/* Runs generated calls of kernels on buffers from a file: harness RUNS RESULTS.
 *
 * RUNS, in int32: runs; per run the number of its call and of its buffers; per buffer its bytes,
 * its alignment, the number of an earlier buffer whose place it takes (or -1), and its content.
 * RESULTS: per run 1 if nothing around any buffer changed, then the content of all buffers.
 *
 * Each buffer lies between canaries and is aligned to no more than it must be. With EXACT_BUFFERS
 * it is an allocation of its own, so that a sanitizer sees every access beside it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BUFFERS 24
#define CANARY_BYTES 64
#define CANARY 0x5A

extern void (*const calls[])(uint8_t *const *b);

typedef struct {
    int32_t bytes, alignment, place;
    uint8_t *block;
} buffer;

static void must(int good) {
    if (!good) {
        fputs("the file of runs is broken\n", stderr);
        exit(3);
    }
}

static int32_t get(FILE *file) {
    int32_t value = 0;
    must(fread(&value, sizeof value, 1, file) == 1);
    return value;
}

#ifdef EXACT_BUFFERS
static uint8_t *allocate(buffer *b) {
    b->block = malloc((size_t)b->bytes);
    return b->block;
}

static int32_t untouched(const buffer *b) {
    (void)b;
    return 1;
}
#else
static size_t begin_of(const buffer *b) {
    return CANARY_BYTES + (size_t)b->alignment;
}

static uint8_t *allocate(buffer *b) {
    const size_t all = begin_of(b) + (size_t)b->bytes + CANARY_BYTES;
    b->block = malloc(all);
    must(b->block != NULL);
    memset(b->block, CANARY, all);
    return b->block + begin_of(b);
}

static int32_t untouched(const buffer *b) {
    int32_t same = 1;
    for (size_t i = 0; i < begin_of(b); i++) {
        same &= b->block[i] == CANARY;
    }
    for (size_t i = 0; i < CANARY_BYTES; i++) {
        same &= b->block[begin_of(b) + (size_t)b->bytes + i] == CANARY;
    }
    return same;
}
#endif

static void run(FILE *in, FILE *out) {
    buffer buffers[MOST_BUFFERS];
    uint8_t *at[MOST_BUFFERS] = {NULL};
    const int32_t call = get(in);
    const int32_t count = get(in);
    must(count <= MOST_BUFFERS);
    for (int32_t i = 0; i < count; i++) {
        buffers[i] = (buffer){.bytes = get(in), .alignment = get(in), .place = get(in)};
        if (buffers[i].place >= 0) {
            at[i] = at[buffers[i].place];
            continue;
        }
        at[i] = allocate(&buffers[i]);
        must(at[i] != NULL);
        must(fread(at[i], 1, (size_t)buffers[i].bytes, in) == (size_t)buffers[i].bytes);
    }
    calls[call](at);
    int32_t same = 1;
    for (int32_t i = 0; i < count; i++) {
        same &= buffers[i].place >= 0 || untouched(&buffers[i]);
    }
    fwrite(&same, sizeof same, 1, out);
    for (int32_t i = 0; i < count; i++) {
        fwrite(at[i], 1, (size_t)buffers[i].bytes, out);
    }
    for (int32_t i = 0; i < count; i++) {
        if (buffers[i].place < 0) {
            free(buffers[i].block);
        }
    }
}

int main(int argc, char **argv) {
    must(argc == 3);
    FILE *in = fopen(argv[1], "rb");
    FILE *out = fopen(argv[2], "wb");
    must(in != NULL && out != NULL);
    const int32_t runs = get(in);
    for (int32_t i = 0; i < runs; i++) {
        run(in, out);
    }
    fclose(in);
    return fclose(out) == 0 ? 0 : 4;
}
