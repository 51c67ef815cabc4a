/* Counts what an emulated Cortex-M executes, at the speed of the emulator: called by Unicorn at each
 * basic block, that is, straight-line code between two jumps.
 *
 * Instructions are counted, also those that an IT instruction skips, which take a cycle too. The
 * block's instructions are counted when it starts; whoever stops the emulator within a block calls
 * mct_counter_uncount. Needs no header of Unicorn and no linking: Python hands the functions over.
 *
 * Attribution. Each instruction belongs to the function that it lies in. It also belongs to a row, one
 * for each call that the model's code makes: a function of the model that is entered from outside is
 * the root; a function that starts while the model's code runs, and is not the model's own, is the
 * next call of this root, until the instruction after the call is reached or the model's code runs
 * again. Row 0 of a root has what the model's own code takes. A function of the model that such a call
 * calls back is a root of its own until it returns. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct uc_struct uc_engine;
typedef int (*memory_read)(uc_engine *, uint64_t address, void *bytes, uint64_t count);
typedef int (*register_read)(uc_engine *, int id, void *value);
typedef int (*emulation_stop)(uc_engine *);

enum {
    LR = 10,
    CACHED = 1 << 16,
    BLOCK_BYTES = 8192,
    ROOTS = 256,
    ROWS = 1024
};
enum {
    STOPPED_NOT = 0,
    STOPPED_AT_TARGET = 1,
    STOPPED_AT_FPU = 2
};

typedef struct {
    uint64_t count;  /* instructions so far */
    uint64_t target; /* stops before a block that would count beyond */
    uint32_t block, block_bytes;
    uint32_t stopped;
    uint32_t fpu_allowed;
    uint32_t fixed_begin, fixed_end; /* addresses of code that changes only with a flush */
} counter_face;

typedef struct {
    uint32_t begin, end, is_model, called_as;
} function_range;

typedef struct {
    uint64_t instructions, calls;
    uint32_t function, reserved;
} row;

/* Where in the model the core is. root: -1 is outside. call: 0 is in the model's own code. */
typedef struct {
    int32_t root;
    uint32_t call, return_to, calls_made;
} position;

typedef struct {
    uint32_t address, bytes, instructions, function;
    uint8_t is_entry, has_fpu;
} block_facts;

typedef struct {
    counter_face face;
    memory_read read;
    register_read read_register;
    emulation_stop stop;
    function_range *functions;
    uint64_t *by_function;
    uint32_t function_count; /* one more than ranges: the last is for all other addresses */
    position at;
    position caller; /* of a function of the model that was called back */
    uint32_t root_functions[ROOTS];
    uint32_t root_count;
    row rows[ROOTS][ROWS];
    block_facts cache[CACHED];
    block_facts uncached;
} counter;

/* The core was reset, whatever it did. */
void mct_counter_leave(counter *c) {
    c->at = (position){.root = -1};
    c->caller = c->at;
}

counter *mct_counter_new(void *read, void *read_register, void *stop) {
    counter *const c = calloc(1, sizeof *c);
    if (c != NULL) {
        memcpy(&c->read, &read, sizeof read);
        memcpy(&c->read_register, &read_register, sizeof read_register);
        memcpy(&c->stop, &stop, sizeof stop);
        c->face.target = UINT64_MAX;
        mct_counter_leave(c);
    }
    return c;
}

void mct_counter_free(counter *c) {
    free(c->functions);
    free(c->by_function);
    free(c);
}

/* ranges: sorted by address. Returns 0 if there is no memory. */
int mct_counter_functions(counter *c, const function_range *ranges, uint32_t count) {
    c->functions = calloc(count + 1, sizeof *c->functions);
    c->by_function = calloc(count + 1, sizeof *c->by_function);
    if (c->functions == NULL || c->by_function == NULL) {
        return 0;
    }
    memcpy(c->functions, ranges, count * sizeof *ranges);
    c->function_count = count;
    return 1;
}

/* The code changed. */
void mct_counter_flush(counter *c) {
    memset(c->cache, 0, sizeof c->cache);
}

/* Forgets what was attributed, not the count. */
void mct_counter_clear(counter *c) {
    memset(c->by_function, 0, (c->function_count + 1) * sizeof *c->by_function);
    memset(c->rows, 0, sizeof c->rows);
    c->root_count = 0;
    mct_counter_leave(c);
}

const uint64_t *mct_counter_by_function(const counter *c) {
    return c->by_function;
}

const row *mct_counter_rows(const counter *c, uint32_t root) {
    return c->rows[root];
}

/* The function of a root, or UINT32_MAX behind the last. */
uint32_t mct_counter_root(const counter *c, uint32_t root) {
    return root < c->root_count ? c->root_functions[root] : UINT32_MAX;
}

static uint32_t find_function(const counter *c, uint32_t address) {
    uint32_t low = 0;
    uint32_t high = c->function_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->functions[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && address < c->functions[low - 1].end ? low - 1 : c->function_count;
}

/* 32-bit encodings begin with 0b11101, 0b11110 or 0b11111: DDI 0403, A5.1. */
static uint32_t encoding_bytes(uint32_t halfword) {
    return halfword >> 11 >= 0x1D ? 4 : 2;
}

static uint32_t halfword_at(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

/* Coprocessors 10 and 11 are the floating-point unit: DDI 0403, A5.3.18. */
static int is_fpu(const uint8_t *code) {
    return (halfword_at(code) & 0xEC00) == 0xEC00 && (halfword_at(code + 2) >> 9 & 7) == 5;
}

static void decode(counter *c, uc_engine *uc, block_facts *facts, uint32_t address,
                   uint32_t bytes) {
    uint8_t code[BLOCK_BYTES + 4] = {0};
    const uint32_t known = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
    (void)c->read(uc, address, code, known);
    facts->address = address;
    facts->bytes = bytes;
    facts->instructions = 0;
    facts->has_fpu = 0;
    for (uint32_t at = 0; at < known; facts->instructions++) {
        const uint32_t length = encoding_bytes(halfword_at(code + at));
        facts->has_fpu |= length == 4 && is_fpu(code + at);
        at += length;
    }
    facts->function = find_function(c, address);
    facts->is_entry =
        facts->function < c->function_count && c->functions[facts->function].begin == address;
}

static const block_facts *facts_of(counter *c, uc_engine *uc, uint32_t address, uint32_t bytes) {
    const int fixed = address - c->face.fixed_begin < c->face.fixed_end - c->face.fixed_begin;
    block_facts *const facts = fixed ? &c->cache[address >> 1 & (CACHED - 1)] : &c->uncached;
    if (!fixed || facts->address != address || facts->bytes != bytes) {
        decode(c, uc, facts, address, bytes);
    }
    return facts;
}

static int32_t find_root(counter *c, uint32_t function) {
    for (uint32_t i = 0; i < c->root_count; i++) {
        if (c->root_functions[i] == function) {
            return (int32_t)i;
        }
    }
    if (c->root_count == ROOTS) {
        return -1;
    }
    c->root_functions[c->root_count] = function;
    return (int32_t)c->root_count++;
}

static void enter_call(counter *c, uc_engine *uc, uint32_t function) {
    uint32_t lr = 0;
    (void)c->read_register(uc, LR, &lr);
    c->at.return_to = lr & ~1u;
    if (c->at.calls_made < ROWS - 1) {
        c->at.calls_made++;
    }
    c->at.call = c->at.calls_made;
    row *const called = &c->rows[c->at.root][c->at.call];
    called->function = c->functions[function].called_as;
    called->calls++;
}

static void enter_model(counter *c, uint32_t function) {
    if (c->at.root < 0) {
        c->at.root = find_root(c, function);
        c->at.calls_made = 0;
        if (c->at.root >= 0) {
            c->rows[c->at.root][0].function = function;
            c->rows[c->at.root][0].calls++;
        }
    }
    c->at.call = 0;
}

/* To the call that called back, or out of the model. */
static void leave_root(counter *c) {
    c->at = c->caller;
    c->caller = (position){.root = -1};
}

static void follow(counter *c, uc_engine *uc, const block_facts *block) {
    const int in_model =
        block->function < c->function_count && c->functions[block->function].is_model;
    if (in_model) {
        if (block->is_entry && c->at.root >= 0 && c->at.call != 0) {
            c->caller = c->at;
            c->at.root = -1;
        }
        enter_model(c, block->function);
    } else if (c->at.root >= 0 && c->at.call == 0) {
        if (block->is_entry) {
            enter_call(c, uc, block->function);
        } else {
            leave_root(c); /* the model returned to its caller */
        }
    } else if (c->at.root >= 0 && block->address == c->at.return_to) {
        leave_root(c); /* its last call returned to its caller */
    }
}

static void attribute(counter *c, const block_facts *block, uint64_t instructions) {
    c->by_function[block->function] += instructions;
    if (c->at.root >= 0) {
        c->rows[c->at.root][c->at.call].instructions += instructions;
    }
}

/* Unicorn's callback for UC_HOOK_BLOCK. */
void mct_counter_block(uc_engine *uc, uint64_t address, uint32_t bytes, void *user_data) {
    counter *const c = user_data;
    const block_facts *const block = facts_of(c, uc, (uint32_t)address, bytes);
    c->face.block = (uint32_t)address;
    c->face.block_bytes = bytes;
    if (c->face.count + block->instructions > c->face.target) {
        c->face.stopped = STOPPED_AT_TARGET;
        (void)c->stop(uc);
        return;
    }
    if (block->has_fpu && !c->face.fpu_allowed) {
        c->face.stopped = STOPPED_AT_FPU;
        (void)c->stop(uc);
        return;
    }
    c->face.count += block->instructions;
    follow(c, uc, block);
    attribute(c, block, block->instructions);
}

/* The emulator stopped within the last block, before the instruction at pc. */
void mct_counter_uncount(counter *c, uc_engine *uc, uint32_t pc) {
    const uint32_t end = c->face.block + c->face.block_bytes;
    if (pc < c->face.block || pc >= end) {
        return;
    }
    block_facts rest;
    decode(c, uc, &rest, pc, end - pc);
    c->face.count -= rest.instructions;
    attribute(c, &rest, -(uint64_t)rest.instructions);
    c->face.block_bytes = pc - c->face.block;
}
