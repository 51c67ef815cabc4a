/* A plugin of QEMU that counts what the model's code of a firmware takes, by the function that it calls,
 * as host/virtual/counter.c does for Unicorn.
 *
 *     qemu-system-arm … -plugin counter.so,ranges=FILE,out=FILE
 *
 * ranges: a line for each function, sorted by address: begin end is_model name, the addresses in
 * hexadecimal. out: a line "= root" whenever a function of the model returns to code outside, and before
 * it "name instructions" for each call that it made, in their order; first "-", the model's own code. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of QEMU's interface for plugins, version 1: qemu-plugin.h. */
struct qemu_plugin_tb;
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                                  void (*)(uint64_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *,
                                                 void (*)(unsigned, void *), int flags, void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
int qemu_plugin_version = 1;
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

enum {
    FUNCTIONS = 4096,
    DEPTH = 16,
    CALLS = 4096,
    OWN = 0,
    NONE = -1
};

typedef struct {
    uint64_t begin, end;
    int is_model;
    char name[128];
} function;

typedef struct {
    int function, is_entry, is_model;
    uint64_t instructions;
} block;

static function functions[FUNCTIONS];
static int function_count;
static uint64_t counts[CALLS];
static int called[CALLS];
static int calls = 1; /* of the root; number 0 is its own code */
static int root = NONE, call = OWN, depth;
static int outside;        /* the function that calls the root */
static int callers[DEPTH]; /* of functions of the model that were called back */
static FILE *out;

static void leave(void) {
    for (int i = 0; i < calls; i++) {
        fprintf(out, "%s %" PRIu64 "\n", i == OWN ? "-" : functions[called[i]].name, counts[i]);
    }
    fprintf(out, "= %s\n", functions[root].name);
    fflush(out);
    memset(counts, 0, sizeof counts);
    root = NONE;
    calls = 1;
    depth = 0;
}

static void enter_model(const block *b) {
    if (root == NONE) {
        root = b->function;
    } else if (call != OWN && b->is_entry && depth < DEPTH) {
        callers[depth++] = call;
    }
    call = OWN;
}

static void execute(unsigned cpu, void *data) {
    const block *b = data;
    (void)cpu;
    if (b->is_model) {
        enter_model(b);
    } else if (root == NONE) {
        outside = b->function;
        return;
    } else if (b->function == outside && !b->is_entry) {
        leave();
        return;
    } else if (call == OWN && b->is_entry) {
        call = calls < CALLS ? calls++ : OWN;
        called[call] = b->function;
    } else if (call == OWN && depth > 0) {
        call = callers[--depth];
    }
    counts[call] += b->instructions;
}

static void translate(uint64_t id, struct qemu_plugin_tb *tb) {
    const uint64_t address = qemu_plugin_tb_vaddr(tb);
    block *b = calloc(1, sizeof *b);
    (void)id;
    b->instructions = qemu_plugin_tb_n_insns(tb);
    b->function = NONE;
    for (int i = 0; i < function_count; i++) {
        if (address >= functions[i].begin && address < functions[i].end) {
            b->function = i;
            b->is_entry = address == functions[i].begin;
            b->is_model = functions[i].is_model;
        }
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, execute, 0, b);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (value == NULL) {
            return 1;
        }
        FILE *file = fopen(value + 1, argv[i][0] == 'o' ? "w" : "r");
        if (file == NULL) {
            return 1;
        }
        if (argv[i][0] == 'o') {
            out = file;
            continue;
        }
        function *f = functions;
        while (function_count < FUNCTIONS - 1 &&
               fscanf(file, "%" SCNx64 " %" SCNx64 " %d %127s", &f->begin, &f->end, &f->is_model,
                      f->name) == 4) {
            f = &functions[++function_count];
        }
        fclose(file);
    }
    if (out == NULL || function_count == 0) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
