/* What the sample uses of Zephyr's pins. */
#ifndef ZEPHYR_DRIVERS_GPIO_H
#define ZEPHYR_DRIVERS_GPIO_H

#include "../../../stub.h"

#define DT_ALIAS(name) stub_alias_##name
#define GPIO_DT_SPEC_GET(node, property) stub_##property(node)
#define stub_gpios(node) {node}
enum {
    stub_alias_sw0 = 13
};
enum {
    GPIO_INPUT = 1 << 16
};

struct gpio_dt_spec {
    int pin;
};

static inline int gpio_pin_configure_dt(const struct gpio_dt_spec *spec, uint32_t flags) {
    return spec->pin == stub_alias_sw0 && flags == GPIO_INPUT ? 0 : -1;
}

static inline int gpio_pin_get_dt(const struct gpio_dt_spec *spec) {
    (void)spec;
    return stub_pressed() ? 1 : 0;
}

#endif
