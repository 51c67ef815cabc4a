/* The cache between a Cortex-M0+ and its serial flash, in an emulator: who calls it, see flash_waits.py.
 *
 * Two ways; the line of a set that was not used last is replaced. Code is fetched as each basic block
 * has it, data as it is read. */
#include <stdint.h>
#include <string.h>

enum {
    LINE_BITS = 3, /* 8 bytes */
    SETS = 1024,
    LINES = 1 << 21 /* of 16 MB */
};

typedef struct {
    uint32_t begin, end; /* addresses of the flash */
    uint64_t lines;      /* that were read at least once */
    uint64_t code_misses, data_misses;
} flash_face;

static flash_face face;
static uint32_t tags[SETS][2]; /* line + 1; the first one was used last */
static uint8_t known[LINES];

flash_face *mct_flash(void) {
    return &face;
}

void mct_flash_clear(void) {
    face.lines = face.code_misses = face.data_misses = 0;
    memset(known, 0, sizeof known);
}

/* Returns whether the line was not there. */
static int read_line(uint32_t line) {
    uint32_t *const set = tags[line % SETS];
    face.lines += !known[line];
    known[line] = 1;
    if (set[0] == line + 1) {
        return 0;
    }
    const int is_miss = set[1] != line + 1;
    set[1] = set[0];
    set[0] = line + 1;
    return is_miss;
}

/* Returns how many lines were not there. */
static uint64_t read_bytes(uint64_t address, uint32_t bytes) {
    uint64_t misses = 0;
    if (bytes > 0 && address >= face.begin && address < face.end) {
        const uint32_t first = (uint32_t)address - face.begin;
        const uint32_t last = (first + bytes - 1) >> LINE_BITS;
        for (uint32_t line = first >> LINE_BITS; line <= last && line < LINES; line++) {
            misses += (uint64_t)read_line(line);
        }
    }
    return misses;
}

/* Unicorn's callback for UC_HOOK_BLOCK. */
void mct_flash_block(void *uc, uint64_t address, uint32_t bytes, void *user_data) {
    (void)uc;
    (void)user_data;
    face.code_misses += read_bytes(address, bytes);
}

/* Unicorn's callback for UC_HOOK_MEM_READ. */
void mct_flash_data(void *uc, int type, uint64_t address, int bytes, int64_t value,
                    void *user_data) {
    (void)uc;
    (void)type;
    (void)value;
    (void)user_data;
    face.data_misses += read_bytes(address, (uint32_t)bytes);
}
