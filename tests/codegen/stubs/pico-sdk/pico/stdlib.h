/* What the example uses of the Pico SDK's pins and time. */
#ifndef PICO_STDLIB_H
#define PICO_STDLIB_H

#include <stdbool.h>

#include "../../stub.h"

enum {
    GPIO_IN = 0
};

static inline bool stdio_init_all(void) {
    return true;
}
static inline void gpio_init(unsigned pin) {
    (void)pin;
}
static inline void gpio_set_dir(unsigned pin, bool out) {
    (void)pin, (void)out;
}
static inline void gpio_pull_up(unsigned pin) {
    (void)pin;
}
static inline bool gpio_get(unsigned pin) {
    (void)pin;
    return !stub_pressed();
}
static inline void sleep_ms(uint32_t milliseconds) {
    (void)milliseconds;
    stub_pause();
}

#endif
