/* Says what an emulated Cortex-M may do with a page of its address space, at its first access: called
 * by Unicorn for UC_HOOK_TLB_FILL. Every address is its own, there is no memory protection unit, and
 * what memory itself forbids is seen to elsewhere.
 *
 * Unicorn looks at each store to a page that may be executed whether it changes code, and this takes
 * most of its time. So pages are data until something is executed in them, and code from then on. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct uc_struct uc_engine;
typedef int (*register_access)(uc_engine *, int id, void *value);

typedef struct {
    uint64_t address;
    uint32_t access;
} page_entry;

enum {
    PAGE_BITS = 10, /* no page is smaller */
    PAGES = 1 << (32 - PAGE_BITS),
    READ_WRITE = 3,
    READ_WRITE_EXECUTE = 7,
    FETCH = 18,
    STATUS = 3,         /* UC_ARM_REG_CPSR */
    IF_THEN = 0x600FC00 /* its bits of the instructions to come that an IT instruction makes
                           conditional */
};

typedef struct {
    register_access read_register, write_register;
    uint8_t is_code[PAGES / 8];
} pages;

pages *mct_pages_new(void *read_register, void *write_register) {
    pages *const p = calloc(1, sizeof *p);
    if (p != NULL) {
        memcpy(&p->read_register, &read_register, sizeof read_register);
        memcpy(&p->write_register, &write_register, sizeof write_register);
    }
    return p;
}

void mct_pages_free(pages *p) {
    free(p);
}

/* Translated code knows which of its instructions are conditional, and says nothing of it in the
 * status; but Unicorn writes it there before it asks here, and the next code would go by it. */
static void forget_conditions(const pages *p, uc_engine *uc) {
    uint32_t status = 0;
    (void)p->read_register(uc, STATUS, &status);
    if (status & IF_THEN) {
        status &= ~(uint32_t)IF_THEN;
        (void)p->write_register(uc, STATUS, &status);
    }
}

/* Unicorn's callback for UC_HOOK_TLB_FILL. */
_Bool mct_pages_access(uc_engine *uc, uint64_t address, int kind, page_entry *entry,
                       void *user_data) {
    pages *const p = user_data;
    const uint32_t page = (uint32_t)address >> PAGE_BITS;
    const uint8_t bit = (uint8_t)(1u << page % 8);
    if (kind == FETCH) {
        p->is_code[page / 8] |= bit;
    } else {
        forget_conditions(p, uc);
    }
    entry->address = address;
    entry->access = p->is_code[page / 8] & bit ? READ_WRITE_EXECUTE : READ_WRITE;
    return 1;
}
