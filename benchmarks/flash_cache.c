/* Caches between a Cortex-M and its flash, in an emulator: who calls it, see flash_waits.py.
 *
 * The least recently used line of a set is replaced. Code is fetched as each basic block has it, data
 * as it is read. */
#include <stdint.h>
#include <string.h>

enum {
    CODE,
    DATA,
    CACHES,
    MOST_LINES = 1 << 12,
    LINES_KNOWN = 1 << 21
};

typedef struct {
    uint32_t line_bits, ways, sets; /* sets: a power of two */
    uint32_t place;                 /* 1: what is read goes through the other cache */
    uint64_t misses;
} cache_shape;

typedef struct {
    uint32_t begin, end; /* addresses of the flash */
    uint64_t lines;      /* of those of data and code, how many were read at least once */
    cache_shape caches[CACHES];
} flash_face;

static flash_face face;
static uint32_t tags[CACHES][MOST_LINES]; /* line + 1 of each way of each set, the latest first */
static uint8_t known[LINES_KNOWN];

flash_face *mct_flash(void) {
    return &face;
}

void mct_flash_clear(void) {
    face.lines = face.caches[CODE].misses = face.caches[DATA].misses = 0;
    memset(known, 0, sizeof known);
}

/* Returns whether the line was not there. */
static int read_line(int which, uint32_t line) {
    const int place = face.caches[which].place ? !which : which;
    const cache_shape *const shape = &face.caches[place];
    uint32_t *const set = tags[place] + (line & (shape->sets - 1)) * shape->ways;
    uint32_t way = 0;
    while (way < shape->ways - 1 && set[way] != line + 1) {
        way++;
    }
    const int is_miss = set[way] != line + 1;
    memmove(set + 1, set, way * sizeof *set);
    set[0] = line + 1;
    return is_miss;
}

static void read_bytes(int which, uint64_t address, uint32_t bytes) {
    if (bytes == 0 || address < face.begin || address >= face.end) {
        return;
    }
    const uint32_t bits = face.caches[which].line_bits, begin = (uint32_t)address - face.begin;
    for (uint32_t line = begin >> bits; line <= (begin + bytes - 1) >> bits; line++) {
        uint8_t *const seen = known + (line & (LINES_KNOWN - 1));
        face.lines += !*seen;
        *seen = 1;
        face.caches[which].misses += (uint64_t)read_line(which, line);
    }
}

/* Unicorn's callback for UC_HOOK_BLOCK. */
void mct_flash_block(void *uc, uint64_t address, uint32_t bytes, void *user_data) {
    (void)uc;
    (void)user_data;
    read_bytes(CODE, address, bytes);
}

/* Unicorn's callback for UC_HOOK_MEM_READ. */
void mct_flash_data(void *uc, int type, uint64_t address, int bytes, int64_t value,
                    void *user_data) {
    (void)uc;
    (void)type;
    (void)value;
    (void)user_data;
    read_bytes(DATA, address, (uint32_t)bytes);
}
