/* A plugin of QEMU that sends what a firmware's model reads of its flash through caches, as many chips at
 * once as are wanted: who calls it, see flash_waits.py.
 *
 *     qemu-system-arm … -plugin flash.so,ranges=FILE,chips=FILE,out=FILE
 *
 * ranges: as qemu_counter.c's. chips: first "begin end ram", addresses of the flash and the RAM in
 * hexadecimal; then a line for each chip, the fields of `chip` below in their order. out: whenever a
 * function of the model returns to code outside, "= root instructions", and before it for each chip
 * "name code_waits data_waits code_misses data_misses", waits in cycles.
 *
 * A chip's flash answers one read after the other. Time passes by instructions, and by waits. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of QEMU's interface for plugins, version 1: qemu-plugin.h. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint32_t qemu_plugin_meminfo_t;
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                                  void (*)(uint64_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
                                                   void (*)(unsigned, void *), int flags, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
                                             void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t,
                                                      void *),
                                             int flags, int accesses, void *);
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
int qemu_plugin_version = 1;
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

enum {
    FUNCTIONS = 4096,
    CHIPS = 16,
    TAGS = 4096,
    NONE = -1,
    READS_AND_WRITES = 3,
    WORD_BITS = 3, /* instructions of 8 bytes are fetched together */
    CYCLE = 16     /* units of time */
};

typedef struct {
    uint64_t begin, end;
    int is_model;
    char name[128];
} function;

typedef struct {
    uint32_t sets, ways; /* ways 0: there is none */
    uint32_t tags[TAGS]; /* line + 1; in each set the one used last comes first */
} cache;

typedef struct {
    char name[64];
    uint32_t line_bits;
    uint32_t wait;       /* cycles for a read of a line */
    uint32_t cycle;      /* units of time for an instruction */
    uint32_t has_next;   /* reads the line behind the one that is executed, if it is not there */
    uint32_t keeps_next; /* and keeps it in the cache */
    cache code, data;
    uint32_t is_one_cache; /* `code` is for both */
    uint32_t ram_from;     /* the data cache is for RAM, too, from this offset on; 0: it is not */
    uint32_t line;         /* that is executed, + 1 */
    uint32_t next;         /* that was read ahead, + 1 */
    uint64_t next_at, free_at, now;
    uint64_t code_waits, data_waits, code_misses, data_misses;
} chip;

typedef struct {
    uint64_t first, last; /* addresses */
    int function, is_entry, is_model;
    uint32_t instructions;
} fetch;

static function functions[FUNCTIONS];
static int function_count;
static chip chips[CHIPS];
static int chip_count;
static uint64_t flash_begin, flash_end, ram_begin;
static int root = NONE, outside;
static uint64_t instructions;
static FILE *out;

/* Returns whether the line is there, and makes it the one used last. keep: puts it there. */
static int find(cache *c, uint32_t line, int keep) {
    if (c->ways == 0) {
        return 0;
    }
    uint32_t *const set = &c->tags[line % c->sets * c->ways];
    uint32_t at = 0;
    while (at < c->ways && set[at] != line + 1) {
        at++;
    }
    const int is_hit = at < c->ways;
    if (is_hit || keep) {
        memmove(set + 1, set, (is_hit ? at : c->ways - 1) * sizeof *set);
        set[0] = line + 1;
    }
    return is_hit;
}

static int holds(const cache *c, uint32_t line) {
    const uint32_t *const set = &c->tags[c->ways == 0 ? 0 : line % c->sets * c->ways];
    for (uint32_t way = 0; way < c->ways; way++) {
        if (set[way] == line + 1) {
            return 1;
        }
    }
    return 0;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The core waits for a read of the flash, which begins when the last one is done. */
static void wait_for(chip *c, uint64_t *waits) {
    const uint64_t done = later(c->now, c->free_at) + c->wait * CYCLE;
    *waits += done - c->now;
    c->now = c->free_at = done;
}

static void fetch_line(chip *c, uint32_t line) {
    if (c->line == line + 1) {
        return;
    }
    c->line = line + 1;
    if (c->next == line + 1 && !holds(&c->code, line)) {
        c->code_waits += later(c->next_at, c->now) - c->now;
        c->now = later(c->next_at, c->now);
        if (c->keeps_next) {
            (void)find(&c->code, line, 1);
        }
    } else if (!find(&c->code, line, 1)) {
        c->code_misses++;
        wait_for(c, &c->code_waits);
    }
    if (c->has_next && c->next != line + 2 && !holds(&c->code, line + 1)) {
        c->next = line + 2;
        c->next_at = c->free_at = later(c->now, c->free_at) + (c->wait + 1) * CYCLE;
    }
}

static void read_line(chip *c, uint64_t line, int is_flash) {
    cache *const data = c->is_one_cache ? &c->code : &c->data;
    if (!find(data, (uint32_t)line, 1) && is_flash) {
        c->data_misses++;
        wait_for(c, &c->data_waits);
    }
}

static void leave(void) {
    for (chip *c = chips; c < chips + chip_count; c++) {
        fprintf(out, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", c->name,
                c->code_waits / CYCLE, c->data_waits / CYCLE, c->code_misses, c->data_misses);
        c->code_waits = c->data_waits = c->code_misses = c->data_misses = 0;
    }
    fprintf(out, "= %s %" PRIu64 "\n", functions[root].name, instructions);
    fflush(out);
    instructions = 0;
    root = NONE;
}

static void execute(unsigned cpu, void *data) {
    const fetch *f = data;
    (void)cpu;
    if (root == NONE) {
        if (!f->is_model) {
            outside = f->function;
            return;
        }
        root = f->function;
    } else if (!f->is_model && f->function == outside && !f->is_entry) {
        leave();
        return;
    }
    instructions += f->instructions;
    for (chip *c = chips; c < chips + chip_count; c++) {
        fetch_line(c, (uint32_t)(f->first >> c->line_bits));
        c->now += f->instructions * c->cycle;
        fetch_line(c, (uint32_t)(f->last >> c->line_bits));
    }
}

static void access_memory(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    (void)cpu;
    (void)data;
    if (root == NONE) {
        return;
    }
    const int is_flash = address >= flash_begin && address < flash_end;
    const uint64_t last = address + (1u << qemu_plugin_mem_size_shift(info)) - 1;
    for (chip *c = chips; c < chips + chip_count; c++) {
        if (is_flash || (c->ram_from != 0 && address >= ram_begin + c->ram_from)) {
            for (uint64_t at = address >> c->line_bits; at <= last >> c->line_bits; at++) {
                read_line(c, at, is_flash);
            }
        }
    }
}

static void place(fetch *f) {
    f->function = NONE;
    for (int i = 0; i < function_count; i++) {
        if (f->first >= functions[i].begin && f->first < functions[i].end) {
            f->function = i;
            f->is_entry = f->first == functions[i].begin;
            f->is_model = functions[i].is_model;
        }
    }
}

static void translate(uint64_t id, struct qemu_plugin_tb *tb) {
    fetch *f = NULL;
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
        const uint64_t address = qemu_plugin_insn_vaddr(insn);
        if (f == NULL || address >> WORD_BITS != f->first >> WORD_BITS) {
            f = calloc(1, sizeof *f);
            f->first = address;
            place(f);
            qemu_plugin_register_vcpu_insn_exec_cb(insn, execute, 0, f);
        }
        f->last = address + qemu_plugin_insn_size(insn) - 1;
        f->instructions++;
        qemu_plugin_register_vcpu_mem_cb(insn, access_memory, 0, READS_AND_WRITES, NULL);
    }
}

static void read_ranges(FILE *file) {
    function *f = functions;
    while (function_count < FUNCTIONS - 1 &&
           fscanf(file, "%" SCNx64 " %" SCNx64 " %d %127s", &f->begin, &f->end, &f->is_model,
                  f->name) == 4) {
        f = &functions[++function_count];
    }
}

static void read_chips(FILE *file) {
    if (fscanf(file, "%" SCNx64 " %" SCNx64 " %" SCNx64, &flash_begin, &flash_end, &ram_begin) !=
        3) {
        return;
    }
    chip *c = chips;
    while (chip_count < CHIPS &&
           fscanf(file, "%63s %u %u %u %u %u %u %u %u %u %u %u", c->name, &c->line_bits, &c->wait,
                  &c->cycle, &c->has_next, &c->keeps_next, &c->code.sets, &c->code.ways,
                  &c->data.sets, &c->data.ways, &c->is_one_cache, &c->ram_from) == 12 &&
           c->code.sets * c->code.ways <= TAGS && c->data.sets * c->data.ways <= TAGS) {
        c = &chips[++chip_count];
    }
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        FILE *file = value == NULL ? NULL : fopen(value + 1, argv[i][0] == 'o' ? "w" : "r");
        if (file == NULL) {
            return 1;
        }
        if (argv[i][0] == 'o') {
            out = file;
            continue;
        }
        if (argv[i][0] == 'r') {
            read_ranges(file);
        } else {
            read_chips(file);
        }
        fclose(file);
    }
    if (out == NULL || function_count == 0 || chip_count == 0) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
